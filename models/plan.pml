/* plan.pml: plan mode of one process set, from the first mark of an epoch to the
 * next epoch.
 *
 * The plan has two batches, {0} and {1, 2}; tensor 3 is off the plan. Each rank
 * is an application, which submits and waits, and an engine, which contributes
 * marks, decides, falls back and reads the log. The coordinator counts
 * announcements and appends to the log.
 *
 * A mark is readable by all once written. Contributions are in order and a POISON
 * is a rank's last one, so the marks of a rank in an epoch are two numbers: c,
 * how many batches it has arrived at, and poi, whether it poisoned index c.
 *
 * -DN=ranks -DITERS=iterations -DW=window -DKINDS=mask of the programs below.
 * What begins with REACH_ must be reachable, so that the rest is not vacuous.
 * What begins with BUG_ breaks one rule; models/check lists them. */
#ifndef N
#define N 2
#endif
#ifndef ITERS
#define ITERS 2
#endif
#ifndef W
#define W 2
#endif
#ifndef KINDS
#define KINDS 254 /* 1 to 7 */
#endif

#define B 2       /* batches of the plan */
#define T 4       /* tensors */
#define PLANNED 7 /* mask of the planned ones */
#define OFF 8
#define EVERYTHING 15
#define BATCH(k) ((k) % B == 0 -> 1 : 6)
#define ALL ((1 << N) - 1)
#define BIT(i) (1 << (i))

/* Kinds of messages and entries, beside the tensors 0 to 3. */
#define DIFFERS 8 /* added to a tensor: with other metadata; in the log: failed */
#define PLAN 16
#define JOIN 17

#define LOG 6      /* entries not yet read by all */
#define EPOCHS (ITERS + 2)
#define ROUNDS (ITERS + 1)
#define BY_LOG 254
#define BY_FAILURE 255

/* Written by the application; `pend` and `joining` are cleared by the engine. */
byte pend[N];     /* submitted and not finished */
byte bad[N];      /* submitted with other metadata */
bool joining[N];  /* has called join, or finalize with -DLEAVE, and waits */
byte kind[ITERS]; /* the program of an iteration, chosen at the start */
bool outside;     /* a message between the applications that tutti does not see */

/* Written by the engine of the rank; ep, c and poi are its marks, which all read. */
byte ep[N];
byte c[N];
bool poi[N];
byte d[N];    /* index of the first batch whose outcome is not known here */
byte hi[N];   /* the batches below have been written to outputs */
byte moves[N];/* committed, their data still moving */
bool slow[N];
byte told[N]; /* announced and not logged */
bool jtold[N];
byte lpos[N];

/* The coordinator. */
chan up[N] = [T + 2] of { byte, byte }; /* what, and tag: PLAN entries that were read */
byte ann[T];
byte dis[T]; /* of these: with other metadata */
byte joined;
byte epoch;
byte seen; /* planned tensors launched since the iteration began */
byte lg[LOG];
byte by[LOG]; /* who takes part */
byte loglen;

/* Ghosts: what the properties speak of. */
byte outcome[EPOCHS];       /* 1 + the outcome of an epoch */
byte how[T * ROUNDS];       /* how the rounds of each tensor ended, 0: not yet */
byte rnd[N * T];            /* rounds seen by each rank */
bool poisoned;              /* somebody, ever */
#ifdef REACH_INDEX
byte entries[N];            /* read by each rank */
byte index_at[EPOCHS];      /* 1 + entries read when leaving an epoch */
#endif

/* The truth behind a commit: nothing is written before all have arrived. */
#define ARRIVED(q, r) (ep[q] == ep[r] && c[q] > d[r])
#define MARKED(q, r) (c[q] > d[r] && SAME_EPOCH(q, r))
#define POISONS(q, r) (poi[q] && LOWEST(q, r) && SAME_EPOCH(q, r))
#ifdef BUG_NO_EPOCH
#define SAME_EPOCH(q, r) true
#else
#define SAME_EPOCH(q, r) (ep[q] == ep[r])
#endif
#ifdef BUG_FIRST_SEEN
#define LOWEST(q, r) (c[q] >= d[r])
#else
#define LOWEST(q, r) (c[q] == d[r])
#endif
#if N == 2
#define ALL_MARKED(r) (MARKED(0, r) && MARKED(1, r))
#define ANY_POISONS(r) (POISONS(0, r) || POISONS(1, r))
#define ALL_ARRIVED(r) (ARRIVED(0, r) && ARRIVED(1, r))
#define READ_BY_ALL (lpos[0] > 0 && lpos[1] > 0)
#else
#define ALL_MARKED(r) (MARKED(0, r) && MARKED(1, r) && MARKED(2, r))
#define ANY_POISONS(r) (POISONS(0, r) || POISONS(1, r) || POISONS(2, r))
#define ALL_ARRIVED(r) (ARRIVED(0, r) && ARRIVED(1, r) && ARRIVED(2, r))
#define READ_BY_ALL (lpos[0] > 0 && lpos[1] > 0 && lpos[2] > 0)
#endif

/* In flight here: of the batches d to c - 1; no name is twice in a window (W <= B). */
#define FLIGHT(r) (c[r] == d[r] -> 0 : (c[r] == d[r] + 1 -> BATCH(d[r]) : PLANNED))
#define IDLE(r) (HERE(r) & PLANNED & ~FLIGHT(r))
#define COMPLETE(r) ((HERE(r) & BATCH(c[r])) == BATCH(c[r]))
#ifdef BUG_MOVING_COUNTS
#define HERE(r) pend[r]
#else
#define HERE(r) (pend[r] & ~moves[r])
#endif
#define MAY_MARK(r) (!slow[r] && !poi[r] && c[r] < d[r] + W && SPEAKS(r))
#ifdef BUG_SILENT /* who sees a poison contributes nothing more, not even before it */
#define SPEAKS(r) (!poi[0] && !poi[1])
#else
#define SPEAKS(r) true
#endif

/* ------------------------------ applications ------------------------------ */

#define SUBMIT(t) \
    atomic { (todo & BIT(t)) && !(pend[r] & BIT(t)) -> pend[r] = pend[r] | BIT(t); \
        todo = todo & ~BIT(t) }

inline submit_all(mask) {
    todo = mask;
    do
    :: SUBMIT(0)
    :: SUBMIT(1)
    :: SUBMIT(2)
    :: SUBMIT(3)
    :: todo == 0 -> break
    od
}

#define CHOICE(k) (KINDS & BIT(k)) -> kind[it] = k

proctype App(byte r)
{
    byte it = 0;
    byte todo = 0;

    do
    :: it < ITERS ->
        if
        :: kind[it] == 1 -> /* everything, in any order */
            submit_all(PLANNED)
        :: kind[it] == 2 -> /* the other order, with a wait between */
            submit_all(4);
            (pend[r] & 4) == 0;
            submit_all(3)
        :: kind[it] == 3 -> /* waits for half a batch */
            submit_all(3);
            (pend[r] & 2) == 0;
            submit_all(4)
        :: kind[it] == 4 -> /* one tensor is not used */
            submit_all(5)
        :: kind[it] == 5 -> /* something beside the plan: first, last */
            if
            :: r == 0 -> submit_all(OFF); submit_all(PLANNED)
            :: else -> submit_all(PLANNED); submit_all(OFF)
            fi
        :: kind[it] == 6 -> /* something beside the plan, waited for first */
            submit_all(OFF);
            (pend[r] & OFF) == 0;
            submit_all(PLANNED)
        :: kind[it] == 7 -> /* the others block on rank 0, outside tutti */
            if
            :: r == 0 ->
                submit_all(PLANNED);
                (pend[r] & 2) == 0;
                outside = true
            :: else ->
                submit_all(3);
                outside;
                submit_all(4)
            fi
        :: kind[it] == 8 -> /* rank 0 says something else about tensor 1 */
            atomic {
                if
                :: r == 0 -> (pend[r] & 2) == 0; bad[r] = 2
                :: else
                fi
            }
            submit_all(PLANNED)
        :: kind[it] == 9 -> /* rank 0 joins, with something submitted */
            if
            :: r == 0 -> submit_all(1)
            :: else -> submit_all(PLANNED); (pend[r] == 0)
            fi;
            joining[r] = true;
            !joining[r]
        :: kind[it] == 10 -> /* the next iteration begins before this one ends */
            submit_all(PLANNED);
            goto next
        fi;
        (pend[r] == 0);
next:   atomic { it++; todo = 0 }
    :: else -> break
    od;
    (pend[r] == 0)
}

/* -------------------------------- engines --------------------------------- */

/* The tensors of a mask are done at rank r. */
inline finish(mask) {
    t = 0;
    do
    :: t < T ->
        if
        :: (mask) & BIT(t) ->
            assert(pend[r] & BIT(t));
            moves[r] = moves[r] & ~BIT(t);
            pend[r] = pend[r] & ~BIT(t);
            bad[r] = bad[r] & ~BIT(t)
        :: else
        fi;
        t++
    :: else -> break
    od;
    t = 0
}

/* How the next round of tensor t ends is decided, here as elsewhere. */
inline note_round(way) {
    assert(rnd[r * T + t] < ROUNDS);
    assert(how[t * ROUNDS + rnd[r * T + t]] == 0 ||
        how[t * ROUNDS + rnd[r * T + t]] == way);
    how[t * ROUNDS + rnd[r * T + t]] = way;
    rnd[r * T + t]++
}

/* The batch before d[r] is the same round of its tensors everywhere. */
inline commit() {
    assert(!(moves[r] & BATCH(d[r] - 1)));
#ifdef REACH_COMMIT
    assert(ep[r] == 0);
#endif
    moves[r] = moves[r] | BATCH(d[r] - 1);
    do
    :: t < T ->
        if
        :: BATCH(d[r] - 1) & BIT(t) ->
            assert(pend[r] & BIT(t));
            note_round(1 + ep[r] * 16 + d[r] - 1)
        :: else
        fi;
        t++
    :: else -> break
    od;
    t = 0
}

inline poison() {
    poi[r] = true;
    poisoned = true
}

/* Outcome: nothing from index d[r] on; on to slow mode. */
inline leave_plan() {
    assert(ep[r] < EPOCHS);
#ifdef REACH_PARTLY
    assert(d[r] == 0 || ep[r] == 0);
#endif
    assert(outcome[ep[r]] == 0 || outcome[ep[r]] == 1 + d[r]);
    assert(hi[r] <= d[r]);
    outcome[ep[r]] = 1 + d[r];
#ifdef REACH_INDEX
    assert(index_at[ep[r]] == 0 || index_at[ep[r]] == 1 + entries[r]);
    index_at[ep[r]] = 1 + entries[r];
#endif
    slow[r] = true;
#ifdef BUG_REANNOUNCE
    told[r] = told[r] | (pend[r] & 2); /* forgets tensor 1 */
#endif
    if
    :: r == 0 -> /* the coordinator's own rank: names of this iteration that are done */
#ifdef BUG_UNALIGNED
        seen = 0
#elif defined(BUG_BOUNDARY)
        seen = (d[r] % B == 0 -> PLANNED : BATCH(0))
#else
        seen = (d[r] % B == 0 -> 0 : BATCH(0))
#endif
    :: else
    fi
}

inline enter_plan() {
#ifdef REACH_RETURN
    assert(false);
#endif
    assert(slow[r]);
    slow[r] = false;
    ep[r]++;
    c[r] = 0;
    d[r] = 0;
    hi[r] = 0;
    poi[r] = false;
    told[r] = told[r] & OFF;
    jtold[r] = false
}

inline read_entry() {
    e = lg[lpos[r]];
    m = by[lpos[r]];
    lpos[r]++;
#ifdef REACH_INDEX
    entries[r]++;
#endif
    if
    :: e == PLAN -> enter_plan()
    :: e == JOIN ->
        assert(joining[r] && jtold[r] && slow[r]);
        joining[r] = false;
        jtold[r] = false
    :: else ->
        t = e & 3;
        assert(slow[r] || t == 3);
        assert(!(moves[r] & BIT(t)));
        note_round((e >= DIFFERS -> BY_FAILURE : BY_LOG));
        if
        :: m & BIT(r) ->
            assert(told[r] & BIT(t));
            told[r] = told[r] & ~BIT(t);
            finish(BIT(e & 3))
        :: else ->
            assert(joining[r] && !(pend[r] & BIT(t)))
        fi
    fi;
    t = 0; e = 0; m = 0;
    if
    :: READ_BY_ALL -> /* forget the entry */
        do
        :: t + 1 < loglen -> lg[t] = lg[t + 1]; by[t] = by[t + 1]; t++
        :: else -> break
        od;
        lg[t] = 0; by[t] = 0; loglen--; t = 0;
        do
        :: t < N -> lpos[t]--; t++
        :: else -> break
        od;
        t = 0
    :: else
    fi
}

inline announce(t_) {
    told[r] = told[r] | BIT(t_);
    e = ((bad[r] & BIT(t_)) -> DIFFERS + t_ : t_);
    up[r]!e, ep[r];
    e = 0
}

#ifdef BUG_MOVING_TOLD
#define UNTOLD(r, t) (pend[r] & ~told[r] & BIT(t))
#else
#define UNTOLD(r, t) (pend[r] & ~told[r] & ~moves[r] & BIT(t))
#endif
#ifdef BUG_WAITER
#define TAU_ARMED(r) (r == 0) /* only the ranks of kind 7 that wait in tutti */
#else
#define TAU_ARMED(r) true
#endif

proctype Engine(byte r)
{
    byte t = 0, e = 0, m = 0;

end:
    do
    :: d_step { /* arrive */
#ifdef BUG_INCOMPLETE
        MAY_MARK(r) && (pend[r] & BATCH(c[r])) && !(bad[r] & BATCH(c[r])) ->
#elif defined(BUG_METADATA)
        MAY_MARK(r) && COMPLETE(r) ->
#else
        MAY_MARK(r) && COMPLETE(r) && !(bad[r] & BATCH(c[r])) ->
#endif
        c[r]++;
#ifdef BUG_EARLY_WRITE
        hi[r] = c[r]
#endif
        }
#if !defined(NO_TAU) && !defined(BUG_NO_TAU)
    :: d_step { /* the timer; that it may fire at any time stands for every duration */
        MAY_MARK(r) && TAU_ARMED(r) && IDLE(r) && !COMPLETE(r) -> poison() }
#endif
#ifdef SPURIOUS
    :: d_step { MAY_MARK(r) && ep[r] == 0 && !poisoned -> poison() }
#endif
#ifdef BUG_RETRACT
    :: d_step { /* the timer takes an arrival back */
        !slow[r] && !poi[r] && c[r] > d[r] -> c[r]--; poison() }
#endif
    :: d_step { /* a planned name with other metadata */
        MAY_MARK(r) && (bad[r] & IDLE(r)) -> poison() }
#ifndef BUG_JOIN
    :: d_step { /* join, finalize */
        MAY_MARK(r) && joining[r] -> poison() }
#endif
    :: d_step { /* all have arrived: the batch commits */
        !slow[r] && c[r] > d[r] && ALL_MARKED(r) ->
        assert(ALL_ARRIVED(r));
        assert(!(bad[0] & BATCH(d[r])));
        d[r]++;
        hi[r] = (hi[r] > d[r] -> hi[r] : d[r]);
        commit() }
    :: d_step { moves[r] & 1 -> finish(1) } /* the data have moved */
    :: d_step { moves[r] & 6 -> finish(6) }
    :: d_step { /* the first index that did not commit is poisoned */
        !slow[r] && ANY_POISONS(r) -> leave_plan() }
    :: atomic { slow[r] && UNTOLD(r, 0) -> announce(0) }
    :: atomic { slow[r] && UNTOLD(r, 1) && !UNTOLD(r, 0) -> announce(1) }
    :: atomic { slow[r] && UNTOLD(r, 2) && !UNTOLD(r, 0) && !UNTOLD(r, 1) ->
        announce(2) }
#ifdef BUG_OFF_WAITS
    :: atomic { slow[r] && UNTOLD(r, 3) -> announce(3) }
#else
    :: atomic { UNTOLD(r, 3) -> announce(3) } /* the lane beside the plan */
#endif
    :: atomic { /* behind everything else that is to be announced */
#ifdef BUG_JOIN_FIRST
        slow[r] && joining[r] && !jtold[r] ->
#else
        slow[r] && joining[r] && !jtold[r] && (pend[r] & ~told[r] & ~moves[r]) == 0 ->
#endif
        jtold[r] = true;
        up[r]!JOIN, ep[r] }
    :: d_step { lpos[r] < loglen -> read_entry() }
    od
}

/* ------------------------------ coordinator ------------------------------- */

inline append(entry, who) {
    assert(loglen < LOG);
    lg[loglen] = entry;
    by[loglen] = who;
    loglen++
}

/* A planned tensor that is ready and was seen before closes an iteration. If it
 * was that of the plan, the plan goes on, and what is announced of it counts as
 * submitted to the plan. */
inline close_iteration() {
    back = false;
    if
    :: s < 3 && (seen & BIT(s)) ->
        if
        :: seen == PLANNED && joined == 0 -> back = true
#ifndef NO_BACK_OFF
        :: true /* hysteresis and back-off: rather not yet */
#endif
        :: else
        fi;
        seen = 0
    :: else
    fi
}

inline begin_epoch() {
    epoch++;
    assert(epoch < EPOCHS);
#ifndef BUG_STALE
    ann[0] = 0; ann[1] = 0; ann[2] = 0;
    dis[0] = 0; dis[1] = 0; dis[2] = 0;
#endif
#ifdef BUG_VOID_ALL
    ann[3] = 0;
#endif
    append(PLAN, ALL)
}

inline settle() {
    s = 0;
    do
    :: s < T ->
        if
        :: ann[s] != 0 && (ann[s] | joined) == ALL ->
            close_iteration();
            if
            :: back -> begin_epoch()
            :: else ->
                seen = (s < 3 -> seen | BIT(s) : seen);
                what = s;
                if
#ifdef LEAVE
                :: ann[s] != ALL -> what = DIFFERS + s /* fails */
#endif
                :: dis[s] != 0 && dis[s] != ann[s] -> what = DIFFERS + s
                :: else
                fi;
                append(what, ann[s]);
                ann[s] = 0;
                dis[s] = 0
            fi;
            back = false
        :: else
        fi;
        s++
    :: else -> break
    od;
    s = 0;
    if
    :: joined == ALL -> joined = 0; append(JOIN, ALL)
    :: else
    fi
}

inline take(q) {
    if
#ifndef BUG_JOIN_LATE
    :: what == JOIN && tag != epoch
#endif
#ifdef BUG_JOIN_LATE
    :: what == JOIN -> joined = joined | BIT(q)
#else
    :: what == JOIN && tag == epoch -> joined = joined | BIT(q)
#endif
#ifndef BUG_LATE
    :: what != JOIN && what % DIFFERS < 3 && tag != epoch /* void: it is in the plan */
#endif
    :: else ->
        ann[what % DIFFERS] = ann[what % DIFFERS] | BIT(q);
        if
        :: what >= DIFFERS -> dis[what % DIFFERS] = dis[what % DIFFERS] | BIT(q)
        :: else
        fi
    fi;
    settle();
    what = 0;
    tag = 0
}

proctype Coordinator()
{
    byte what = 0, tag = 0, s = 0;
    bool back = false;

end:
    do
    :: atomic { up[0]?what, tag -> take(0) }
    :: atomic { up[1]?what, tag -> take(1) }
#if N > 2
    :: atomic { up[2]?what, tag -> take(2) }
#endif
    od
}

init {
    byte i = 0, it = 0;

    atomic {
        do
        :: it < ITERS ->
            if
            :: CHOICE(1)
            :: CHOICE(2)
            :: CHOICE(3)
            :: CHOICE(4)
            :: CHOICE(5)
            :: CHOICE(6)
            :: CHOICE(7)
            :: CHOICE(8)
            :: CHOICE(9)
            :: CHOICE(10)
            fi;
            it++
        :: else -> break
        od;
        do
        :: i < N -> run App(i); run Engine(i); i++
        :: else -> break
        od;
        run Coordinator()
    }
}

/* lanes.pml: two process sets that overlap, and a lane beside the plan.
 *
 * Set A is {0, 1, 2}, with the plan {a0}, {a1}; x is off that plan. Set B is {0,
 * 1}, with the plan {b0}. Rank 1 submits against the order of the others. What is
 * decided is launched: what a plan commits, under the index of its batch; what a
 * log holds, under its index there.
 *
 * Our own transports move whatever was launched, in any order: a collective needs
 * a name that all members give it, and each set has its plan and its log. */
#define RANKS 3
#define A0 0
#define A1 1
#define B0 2
#define X 3
#define OPS 4
#define BIT(i) (1 << (i))
#define MEMBERS(op) (op == B0 -> 3 : 7)
#define SET(op) (op == B0)
#define BELONGS(s, r) (s == 0 || r < 2)

/* The plan of a set: its length, the operation of an index, what is on it. */
#define LENGTH(s) (s == 0 -> 2 : 1)
#define PLANNED(s, k) (s == 0 -> k : B0)

#define AT(s, r) ((s) * RANKS + (r))
byte c[2 * RANKS], d[2 * RANKS];  /* of a set and a rank: arrived, decided */
bool poi[2 * RANKS], slow[2 * RANKS];

byte pend[RANKS]; /* submitted and not done */
byte told[RANKS];
byte ann[OPS];
byte lg[2 * OPS], loglen[2], lpos[2 * RANKS];

#define NAMES 12
byte plane[2 * NAMES * RANKS]; /* 1 + what a rank launched under a name */
byte launched[OPS];            /* by whom */
byte count[2 * RANKS];         /* launched so far, of a set */
byte finished;
byte program;

proctype App(byte r)
{
    byte todo, first, o;

    if
    :: program == 0 -> first = 0       /* everything at once */
    :: program == 1 -> first = BIT(B0) /* waits in one set, goes on in the other */
    :: program == 2 -> first = BIT(A1) /* against the order of the plan */
    :: program == 3 -> first = BIT(X)  /* waits for what is off the plan */
    fi;
    first = first & (r < 2 -> 15 : 11);
    atomic { pend[r] = pend[r] | first };
    (pend[r] & first) == 0;
    todo = (r < 2 -> 15 : 11) & ~first;
    do
    :: atomic { (r == 2 || program != 0) && todo != 0 -> /* at once: fewer states */
        pend[r] = pend[r] | todo;
        todo = 0 }
    :: atomic { r != 2 && program == 0 && todo != 0 ->
        o = (r == 1 -> OPS - 1 : 0); /* the last first at rank 1, the first elsewhere */
        do
        :: todo & BIT(o) -> break
        :: else -> o = (r == 1 -> o - 1 : o + 1)
        od;
        pend[r] = pend[r] | BIT(o);
        todo = todo & ~BIT(o);
        o = 0 }
    :: todo == 0 -> break
    od;
    pend[r] == 0
}

#ifdef BUG_ONE_COUNTER /* both lanes number what they launch by one count */
#define NAME(s, lane, number) (count[AT(s, r)])
#else
#define NAME(s, lane, number) ((lane) * 6 + (number))
#endif
#define SAME(q) (plane[(s * NAMES + name) * RANKS + q] == 0 || \
    plane[(s * NAMES + name) * RANKS + q] == op + 1)

inline launch(lane, number) {
    assert(pend[r] & BIT(op));
    assert(!(launched[op] & BIT(r)));
    launched[op] = launched[op] | BIT(r);
    s = SET(op);
    name = NAME(s, lane, number);
    plane[(s * NAMES + name) * RANKS + r] = op + 1;
    count[AT(s, r)]++;
    assert(SAME(0) && SAME(1) && SAME(2));
    name = 0;
    s = 0;
    skip
}

#define MARKS(set, q) (!BELONGS(set, q) || c[AT(set, q)] > d[AT(set, r)])
#define POISONS(set, q) \
    (BELONGS(set, q) && poi[AT(set, q)] && c[AT(set, q)] == d[AT(set, r)])
#define NEXT_OP(set) PLANNED(set, c[AT(set, r)])
#define IN_PLAN(set) (BELONGS(set, r) && !slow[AT(set, r)])
#define MAY_MARK(set) (IN_PLAN(set) && !poi[AT(set, r)] && c[AT(set, r)] < LENGTH(set))
#define IS_HERE(set) (pend[r] & BIT(NEXT_OP(set)))

/* Something of the set is here behind the cursor: only a1 can be ahead of its turn. */
#define AHEAD(set) (set == 0 && c[AT(set, r)] == 0 && (pend[r] & BIT(A1)))

#define PLAN_STEPS(set) \
    :: d_step { MAY_MARK(set) && IS_HERE(set) -> c[AT(set, r)]++ } \
    :: d_step { MAY_MARK(set) && !IS_HERE(set) && AHEAD(set) -> \
        poi[AT(set, r)] = true } \
    :: d_step { IN_PLAN(set) && d[AT(set, r)] < LENGTH(set) && \
            MARKS(set, 0) && MARKS(set, 1) && MARKS(set, 2) -> \
        op = PLANNED(set, d[AT(set, r)]); \
        launch(0, d[AT(set, r)]); \
        d[AT(set, r)]++ } \
    :: d_step { IN_PLAN(set) && \
            (POISONS(set, 0) || POISONS(set, 1) || POISONS(set, 2)) -> \
        slow[AT(set, r)] = true }

/* May this rank announce an operation now? */
#define FREE(o) (o == X || slow[AT(SET(o), r)])
#define UNTOLD(o) (pend[r] & ~told[r] & BIT(o) && !(launched[o] & BIT(r)) && FREE(o))

/* Announces; the last to do so appends, which stands for the coordinator. */
inline announce() {
    told[r] = told[r] | BIT(op);
    ann[op] = ann[op] | BIT(r);
    if
    :: ann[op] == MEMBERS(op) ->
        s = SET(op);
        lg[s * OPS + loglen[s]] = op;
        loglen[s]++;
        s = 0
    :: else
    fi
}

#define READ(l) \
    :: d_step { (l == 0 || r < 2) && lpos[AT(l, r)] < loglen[l] -> \
        op = lg[l * OPS + lpos[AT(l, r)]]; \
        if \
        :: MEMBERS(op) & BIT(r) -> launch(1, lpos[AT(l, r)]) \
        :: else \
        fi; \
        lpos[AT(l, r)]++; \
        op = 0 }

proctype Engine(byte r)
{
    byte op = 0, s = 0, name = 0;

end:
    do
    PLAN_STEPS(0)
    PLAN_STEPS(1)
    :: d_step { UNTOLD(0) -> op = 0; announce(); op = 0 }
    :: d_step { UNTOLD(1) && !UNTOLD(0) -> op = 1; announce(); op = 0 }
    :: d_step { UNTOLD(2) && !UNTOLD(1) && !UNTOLD(0) -> op = 2; announce(); op = 0 }
    :: d_step { UNTOLD(3) && !UNTOLD(2) && !UNTOLD(1) && !UNTOLD(0) ->
        op = 3; announce(); op = 0 }
    READ(0)
    READ(1)
    od
}

#define RUNS(o, q) \
    (!(MEMBERS(o) & BIT(q)) || ((launched[o] & BIT(q)) && (pend[q] & BIT(o))))
#define COLLECTIVE(o) \
    :: d_step { RUNS(o, 0) && RUNS(o, 1) && RUNS(o, 2) -> \
        pend[0] = pend[0] & ~BIT(o); \
        pend[1] = pend[1] & ~BIT(o); \
        pend[2] = pend[2] & ~BIT(o); \
        finished++ }

/* The data plane: a collective of all its members runs. */
proctype Plane()
{
end:
    do
    COLLECTIVE(0)
    COLLECTIVE(1)
    COLLECTIVE(2)
    COLLECTIVE(3)
    :: finished == OPS -> break
    od
}

init {
    atomic {
        if
        :: program = 0
        :: program = 1
        :: program = 2
        :: program = 3
        fi;
        run App(0); run App(1); run App(2);
        run Engine(0); run Engine(1); run Engine(2);
        run Plane()
    }
}

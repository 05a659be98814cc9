/* order.pml: the launch order of device batches (lib/device/tickets.h).
 *
 * Rank 0 is the sequencer, and the tree of the world is 0 -> 1 -> 2. The world has the batches
 * W0 and W1; C is the creation of the set B = {1, 2}, of which B0 is a batch. The world's log
 * has what all have submitted, in any order, but W0 before W1. Each rank reads in its own time
 * what is agreed on, set by set, and launches when the ticket is first: it
 * puts the batch at the end of the queue of its device. There a collective runs when it is at
 * the head of the queues of all that take part.
 *
 * A rank with nothing pending sleeps, unless it may be asked or is owed a ticket.
 *
 * -DJOIN: rank 1 has joined when W0 is submitted, J is the join, and there is no W1.
 * -DCALLER: a rank launches only while it waits. -DLATE: the world has no batch before C, so the
 * members of B meet alone. -DHOME: B is {0, 2}. -DOUTSIDE: ranks wait for each other outside of
 * the library, too. */
#define N 3
#define W0 0
#define W1 1
#define C 2
#define B0 3
#define J 4
#define OPS 5
#define BIT(i) (1 << (i))
#define BATCHES (BIT(W0) | BIT(W1) | BIT(B0))
#define IS_OF_B(o) (o == B0 || o == C)
#ifdef HOME
#define MEMBERS(o) (o == B0 -> 5 : 7)
#else
#define MEMBERS(o) (o == B0 -> 6 : 7)
#endif

/* Flags of a ticket, above its operation: its ranks meet first; it came straight. */
#define TOKEN 8
#define STRAIGHT 16
#define OP(t) ((t) & 7)

#ifdef JOIN
#define COUNTS_ONLY(r, o) (r == 1 && o == W0)
#define BEFORE(o) (o == W0 -> 0 : (o == J -> BIT(W0) : BIT(J)))
#define FIRST_OPS(r) (r == 1 -> BIT(J) : BIT(W0) | BIT(J))
#else
#define COUNTS_ONLY(r, o) false
#ifdef LATE
#define BEFORE(o) 0
#define FIRST_OPS(r) 0
#else
#define BEFORE(o) (o == W1 -> BIT(W0) : 0)
#define FIRST_OPS(r) (BIT(W0) | BIT(W1))
#endif
#endif
#ifdef LATE
#define LAST_OPS(r) ((MEMBERS(B0) & BIT(r) -> BIT(B0) : 0) | BIT(W1))
#else
#define LAST_OPS(r) (MEMBERS(B0) & BIT(r) -> BIT(B0) : 0)
#endif

byte submitted[OPS]; /* by whom */
byte pending[N];     /* submitted here, and not over */
byte queued[N];      /* batches read, and not launched */
byte log[3], length; /* of the world */
byte decided;        /* what is in it */
byte logged[N];      /* read of it */
bool readb[N];       /* B0 */
bool knows[N];       /* set B */
bool direct[N];      /* tickets come straight */
bool waits[N], leaving[N];
byte steps[N];       /* what its application told the others, outside */
bool given[2];       /* sequencer: a token, to the world and to B */
byte here[2];        /* who has come to meet */
bool met[N];         /* for the first ticket */
byte todo;           /* batches that have not run */

byte next[N * OPS], first[N], last[N];
chan early[N] = [OPS] of { byte };
chan link[N * N] = [OPS] of { byte }; /* from * N + to */
chan device[N] = [OPS] of { byte };

#ifdef BUG_SLEEPS
#define OWED(r) 0
#else
#define OWED(r) queued[r]
#endif
#ifdef BUG_OFF_DUTY
#define ASKED(r) false
#else
#define ASKED(r) (r == 0 && knows[r] && !(MEMBERS(B0) & 1))
#endif
#define AWAKE(r) (pending[r] || leaving[r] || OWED(r) || ASKED(r))

#ifdef BUG_NO_PART
#define IS_COUNTED(r) false
#else
#define IS_COUNTED(r) (COUNTS_ONLY(r, W0) && (queued[r] & BIT(W0)))
#endif
#ifdef BUG_CREATION_WAITS
#define CREATES(r) false
#else
#define CREATES(r) (knows[r] && (pending[r] & BIT(C)))
#endif
#ifdef CALLER
#define DEMANDED(r) \
    (leaving[r] || (waits[r] && (pending[r] & BATCHES)) || IS_COUNTED(r) || CREATES(r))
#else
#define DEMANDED(r) true
#endif

/* ---- tickets */

/* Puts one behind the others; an inner rank hands on what came along the tree. */
inline append(t) {
    next[r * OPS + last[r]] = t;
    last[r]++;
    if
    :: r == 1 && !(t & STRAIGHT) -> link[N + 2]!t
    :: else
    fi;
#ifndef BUG_TREE_KEPT
    if
    :: OP(t) == C -> direct[r] = true
    :: else
    fi
#endif
}

/* Sequencer: writes one and tells it. */
inline grant(o) {
    ticket = o;
    if
    :: o == C && given[0] -> ticket = o | TOKEN; given[1] = true
    :: o != C && !given[IS_OF_B(o)] -> ticket = o | TOKEN; given[IS_OF_B(o)] = true
    :: else
    fi;
    if
    :: direct[0] ->
        ticket = ticket | STRAIGHT;
        if
        :: MEMBERS(OP(ticket)) & BIT(1) -> link[1]!ticket
        :: else
        fi;
        link[2]!ticket
    :: else -> link[1]!ticket
    fi;
    append(ticket);
    ticket = 0
}

inline take(o) {
    queued[r] = queued[r] | BIT(o);
    if
    :: r == 0 -> grant(o)
#ifdef BUG_ALL_ASK
    :: r > 0 && o == B0 -> link[r * N]!o
#elif !defined(HOME)
    :: r == 1 && o == B0 -> link[r * N]!o /* the first member asks for all */
#endif
    :: else
    fi
}

#define TICKET next[r * OPS + first[r]]
#define O OP(TICKET)
#define IS_HERE (first[r] < last[r] && (!IS_OF_B(O) || knows[r]))
#define IS_MINE (MEMBERS(O) & BIT(r))
#define MEETS ((TICKET & TOKEN) && !met[r] && IS_MINE)
#ifdef BUG_ANY_SET
#define MATCHES(o) (O == o || O == B0 || o == B0)
#else
#define MATCHES(o) (O == o)
#endif

inline pop() {
    first[r]++;
    met[r] = false
}

inline launch(o) {
    queued[r] = queued[r] & ~BIT(o);
    pending[r] = pending[r] & ~BIT(o);
    if
    :: COUNTS_ONLY(r, o)
    :: else -> device[r]!o
    fi
}

#ifdef BUG_NO_ORDER /* what is agreed on is launched */
#define MAY_LAUNCH(o) (queued[r] & BIT(o))
#define DONE
#else
#define MAY_LAUNCH(o) \
    (AWAKE(r) && IS_HERE && !MEETS && IS_MINE && DEMANDED(r) && MATCHES(o) && \
        (queued[r] & BIT(o)))
#define DONE ; pop()
#endif
#define LAUNCH(o) :: d_step { MAY_LAUNCH(o) -> launch(o) DONE }

#define RECEIVE(from) \
    :: d_step { AWAKE(r) && r != from && nempty(link[from * N + r]) -> \
        link[from * N + r]?got; \
        if \
        :: r == 0 -> grant(OP(got)) \
        :: r > 0 && (got & STRAIGHT) && WAITS_FOR_TREE -> early[r]!got \
        :: r > 0 && !((got & STRAIGHT) && WAITS_FOR_TREE) -> append(got) \
        fi; \
        do \
        :: direct[r] && nempty(early[r]) -> early[r]?got; append(got) \
        :: !direct[r] || empty(early[r]) -> break \
        od; \
        got = 0 }
#ifdef BUG_EARLY
#define WAITS_FOR_TREE false
#else
#define WAITS_FOR_TREE !direct[r]
#endif

#define AGREED(o) (submitted[o] == MEMBERS(o))

#define DECIDE(o) \
    :: d_step { AGREED(o) && !(decided & BIT(o)) && !(BEFORE(o) & ~decided) -> \
        log[length] = o; \
        length++; \
        decided = decided | BIT(o) }

proctype Coordinator()
{
end:
    do
    DECIDE(W0)
    DECIDE(W1)
    DECIDE(C)
    DECIDE(J)
    od
}

proctype Engine(byte r)
{
    byte ticket = 0, got = 0;

end:
    do
    :: d_step { AWAKE(r) && logged[r] < length ->
        got = log[logged[r]];
        logged[r]++;
        if
        :: got == J -> pending[r] = pending[r] & ~BIT(J)
        :: got == C ->
            knows[r] = true;
            if
            :: r == 0 -> grant(C)
            :: else
            fi
        :: else -> take(got)
        fi;
        got = 0 }
    :: d_step { AWAKE(r) && MEMBERS(B0) & BIT(r) && !readb[r] && AGREED(B0) -> readb[r] = true; take(B0) }
    RECEIVE(0)
    RECEIVE(1)
    RECEIVE(2)
    :: d_step { AWAKE(r) && IS_HERE && MEETS && (DEMANDED(r) || (here[IS_OF_B(O)] & BIT(r))) &&
            (!(here[IS_OF_B(O)] & BIT(r)) || here[IS_OF_B(O)] == MEMBERS(O)) ->
        here[IS_OF_B(O)] = here[IS_OF_B(O)] | BIT(r);
        met[r] = (here[IS_OF_B(O)] == MEMBERS(O)) }
    :: d_step { AWAKE(r) && IS_HERE && !MEETS && O == C ->
        pending[r] = pending[r] & ~BIT(C);
        pop() }
    :: d_step { AWAKE(r) && IS_HERE && !IS_MINE -> pop() }
#ifdef BUG_UNKNOWN
    :: d_step { AWAKE(r) && first[r] < last[r] && IS_OF_B(O) && !knows[r] -> pop() }
#endif
    LAUNCH(W0)
    LAUNCH(W1)
    LAUNCH(B0)
    od
}

/* ---- programs */

inline submit() {
    pending[r] = pending[r] | ops;
    o = 0;
    do
    :: o < OPS ->
        if
        :: ops & BIT(o) -> submitted[o] = submitted[o] | BIT(r)
        :: else
        fi;
        o++
    :: else -> break
    od;
    o = 0;
    ops = 0
}

#ifdef OUTSIDE
#define OTHERS_COME(step) \
    steps[r] = step; \
    steps[0] >= step && steps[1] >= step && steps[2] >= step
#else
#define OTHERS_COME(step) skip
#endif

proctype App(byte r)
{
    byte o = 0, ops = 0;

    d_step { ops = FIRST_OPS(r); submit() };
    if
    :: waits[r] = true;
        pending[r] == 0;
        waits[r] = false
#if !defined(CALLER) && !defined(OUTSIDE)
    :: true
#endif
    fi;
    OTHERS_COME(1);
    d_step { ops = BIT(C); submit() };
    !(pending[r] & BIT(C));
    d_step { ops = LAST_OPS(r); submit() };
    waits[r] = true;
    pending[r] == 0;
    OTHERS_COME(2);
    leaving[r] = true
}

#define AT_HEAD(o, q) (!(MEMBERS(o) & BIT(q)) || COUNTS_ONLY(q, o) || device[q]?[o])
#define TAKE(o, q) \
    if \
    :: device[q]?[o] -> device[q]?o \
    :: else \
    fi
#define COLLECTIVE(o) \
    :: d_step { (todo & BIT(o)) && AT_HEAD(o, 0) && AT_HEAD(o, 1) && AT_HEAD(o, 2) -> \
        TAKE(o, 0); TAKE(o, 1); TAKE(o, 2); \
        todo = todo & ~BIT(o) }

/* Nothing waits for it: it may as well run when all is launched. */
proctype Device()
{
    leaving[0] && leaving[1] && leaving[2];
    do
    COLLECTIVE(W0)
    COLLECTIVE(W1)
    COLLECTIVE(B0)
    :: todo == 0 -> break
    od
}

init {
    atomic {
        todo = (FIRST_OPS(0) | LAST_OPS(0) | BIT(B0)) & BATCHES;
#ifdef JOIN
        submitted[W0] = BIT(1); /* who has joined is not waited for */
#endif
        run Coordinator();
        run Engine(0); run Engine(1); run Engine(2);
        run App(0); run App(1); run App(2);
        run Device()
    }
}

/* log.pml: agreement by bits and the log, in one process set (docs/design/negotiation.md).
 *
 * Rank 0 is the coordinator. Its children, 1 and 2, are on its node; with -DREMOTE rank 2 is on
 * another, and with -DCHAIN rank 2 is a child of rank 1. There is one place for a number, which
 * two tensors (-DT=3: three) take in turn, so that it is reused all the time.
 *
 * Each rank submits each tensor USES times, in any order, the next time when the last is over.
 * With -DJOIN rank 1 submits once less (with -DJOIN2 rank 2, too) and all ranks join; a join waits
 * for nothing that its rank has submitted. A rank with nothing in flight sleeps: it reads nothing.
 *
 * A rank shows its parent a bit, which it flips. The parent sees that late, at any time. But a
 * message makes visible all that its sender had shown before.
 *
 * Switches that begin with REACH_ must be reachable, so that the rest is not vacuous. Switches
 * that begin with BUG_ break one rule. -DLONG: every other log message is too long for the ring. */
#ifndef N
#define N 3
#endif
#ifndef USES
#define USES 2
#endif
#ifndef CELLS
#define CELLS 1 /* of the ring of a rank */
#endif

#ifndef T
#define T 2 /* tensors */
#endif
/* How a tensor is announced. */
#define NO 0
#define BY_NAME 1
#define BY_NUMBER 2
/* Messages up and entries are about these, beside the tensors. */
#define JOINING 3
#define BITS 4
#define NOTHING 5
/* Steps of a rank. */
#define SUBMIT 6
#define JOIN_NOW 7
#define RECEIVE 8
#define LOOK 9
#define READ 10
#define FLUSH 11

#define BIT(r) (1 << (r))
#define ALL (BIT(N) - 1)
#define LOG 16

#ifdef CHAIN
#define UP(r) ((r) > 0 -> (r) - 1 : 0)
#define BELOW(r) (ALL & ~(BIT(r) - 1)) /* the rank and those below it */
#define FIRST_CHILD(r) ((r) + 1)
#define END_OF_CHILDREN(r) ((r) + 1 < N -> (r) + 2 : (r) + 1)
#else
#define UP(r) 0
#define BELOW(r) (r == 0 -> ALL : BIT(r))
#define FIRST_CHILD(r) 1
#define END_OF_CHILDREN(r) (r == 0 -> N : 1)
#endif
#ifdef REMOTE
#define IS_NEAR(r) ((r) != 2)
#else
#define IS_NEAR(r) true
#endif
#ifdef JOIN
#ifdef JOIN2
#define SUBMITS(r) ((r) > 0 -> USES - 1 : USES)
#else
#define SUBMITS(r) ((r) == 1 -> USES - 1 : USES)
#endif
#else
#define SUBMITS(r) USES
#endif

/* A rank's application, and its part of the agreement. */
byte pend[N * T];   /* how it has announced the tensor, until that is over */
byte submitted[N * T];
byte over[N * T];   /* rounds of the tensor in the part of the log that it has read */
bool joins[N];      /* announced, and not over */
bool has_joined[N];

byte number[N];     /* in the place; 0: none */
byte holder[N];     /* the tensor that has it */
bool own[N];        /* announced by number, not decided */
bool reported[N];   /* the parent knows that all below have */
bool single[N];     /* collected member by member */
bool passes[N];     /* somebody below has joined: all is passed on */
bool heard[N];      /* the parent of the rank: all at and below it have announced the number */

/* The board. */
byte flips[N];      /* so far, of the bit of the rank */
byte seen[N];       /* of these, when its parent looked last */
byte ring[N * CELLS]; /* 1 + number of a log message */
byte read[N];       /* messages of its parent's log that a rank has read, in the ring */
byte length[N];     /* log messages applied */

/* Messages: subject, ranks that announce, log length or number, flips of the sender */
chan up[N] = [6] of { byte, byte, byte, byte };
chan down[N] = [LOG] of { byte };

/* The coordinator. */
byte named[T];      /* ranks that have announced it by name */
byte least[T];      /* that one of them had read of the log */
byte counted;       /* ranks that have announced the number, member by member */
byte joined;
byte next_number = 1;
byte free_since;    /* length of the log when the place became free */
byte retired_at;    /* length behind the last message that retires a number */
byte decided[T];    /* rounds */

/* The log. A message retires a number, if it is marked so, and has one entry. */
byte entry[LOG];
byte entry_number[LOG]; /* decided, or given with a name; 0: none */
bool entry_gives[LOG];
bool entry_retires[LOG];
byte entry_joined[LOG]; /* ranks that take no part */
byte appended;

#if T == 2
#define ANY_PENDS(r) (pend[(r) * T] != NO || pend[(r) * T + 1] != NO)
#define ALL_SUBMITTED(r) (LAST(r, 0) && LAST(r, 1))
#define ALL_DECIDED (decided[0] == USES && decided[1] == USES)
#else
#define ANY_PENDS(r) \
    (pend[(r) * T] != NO || pend[(r) * T + 1] != NO || pend[(r) * T + 2] != NO)
#define ALL_SUBMITTED(r) (LAST(r, 0) && LAST(r, 1) && LAST(r, 2))
#define ALL_DECIDED (decided[0] == USES && decided[1] == USES && decided[2] == USES)
#endif
#define LAST(r, tensor) (submitted[(r) * T + tensor] == SUBMITS(r))
#define AWAKE(r) (ANY_PENDS(r) || joins[r])
#define IS_SINGLE(r) (single[r] || passes[r] || (r == 0 && joined != 0))

/* ---- up the tree */

inline send_up(r, about, from, mark) {
    up[r]!about, from, mark, flips[r]
}

/* A number of some ranks, at a rank that collects it member by member. */
inline collect(r, from) {
    if
    :: r == 0 ->
        assert(!(counted & from)); /* announced twice */
        counted = counted | from
    :: r > 0 -> send_up(r, BITS, from, number[r])
    fi
}

/* From here on the number is collected member by member: hands over all that was noted of it. */
inline make_single(r) {
    if
    :: number[r] && !single[r] ->
        single[r] = true;
        if
        :: !reported[r] ->
            k = FIRST_CHILD(r);
            do
            :: k < END_OF_CHILDREN(r) ->
                if
                :: heard[k] ->
                    heard[k] = false;
                    whose = BELOW(k);
                    collect(r, whose)
                :: else
                fi;
                k++
            :: else -> break
            od;
            k = 0;
            if
            :: own[r] -> own[r] = false; whose = BIT(r); collect(r, whose)
            :: else
            fi
        :: else
        fi
    :: else
    fi
}

inline announce_number(r) {
    if
    :: IS_SINGLE(r) -> single[r] = true; whose = BIT(r); collect(r, whose)
    :: else -> own[r] = true
    fi
}

/* The whole subtree of a child has announced the number. */
inline number_heard(r, child) {
    if
    :: IS_SINGLE(r) ->
        make_single(r);
        whose = BELOW(child);
        collect(r, whose)
    :: else ->
        assert(!heard[child]); /* announced twice */
        heard[child] = true
    fi
}

#ifdef BUG_SEEN_FIRST
#define IS_LESS(had, before) false
#else
#define IS_LESS(had, before) ((had) < (before))
#endif

/* Some ranks announce a tensor by name; the coordinator collects, others pass it on. */
inline announce_name(r, name, from, had_read) {
    if
    :: r == 0 ->
        assert(!(named[name] & from) && !(number[0] && holder[0] == name));
        least[name] = (named[name] == 0 || IS_LESS(had_read, least[name]) -> had_read :
            least[name]);
        named[name] = named[name] | from
    :: r > 0 -> send_up(r, name, from, had_read)
    fi
}

#ifdef BUG_JOIN_EARLY
#define JOIN_IS_VOID(mask, had) (joined & (mask))
#else
#define JOIN_IS_VOID(mask, had) (((mask) != BIT(0) && (had) < retired_at) || (joined & (mask)))
#endif
#ifdef BUG_NO_SINGLE
#define MAKE_SINGLE(r)
#else
#define MAKE_SINGLE(r) make_single(r)
#endif

inline announce_join(r, joiner, had_read) {
    if
    :: r == 0 && JOIN_IS_VOID(joiner, had_read)
    :: r == 0 && !JOIN_IS_VOID(joiner, had_read) ->
        joined = joined | joiner;
        MAKE_SINGLE(r)
    :: r > 0 ->
#ifndef BUG_HOLDS
        passes[r] = true;
        MAKE_SINGLE(r);
#endif
        send_up(r, JOINING, joiner, had_read)
    fi
}

/* ---- the log */

/* The truth behind a decision: all that take part have announced this very use. */
inline check_decided(tensor, by) {
    k = 0;
    do
    :: k < N ->
        if
        :: !(by & BIT(k)) ->
            assert(has_joined[k] &&
                (pend[k * T + tensor] == NO || over[k * T + tensor] < decided[tensor]))
        :: else -> assert(pend[k * T + tensor] != NO && over[k * T + tensor] == decided[tensor])
        fi;
        k++
    :: else -> break
    od;
    k = 0;
    decided[tensor]++
}

/* The ring has space when all children of the node have read the message that is replaced. */
#ifdef BUG_NO_ROOM
#define LAGS(q) false
#else
#define LAGS(q) (read[q] + CELLS <= at)
#endif

/* Log message `at` goes to the children: over the ring, where it fits in. */
inline forward(r, at) {
    fits = true;
    k = FIRST_CHILD(r);
    do
    :: k < END_OF_CHILDREN(r) ->
        fits = fits && !(IS_NEAR(k) && LAGS(k));
        k++
    :: else -> break
    od;
#ifdef LONG /* every other one is too long for it */
    fits = fits && (at & 1);
#endif
    if
    :: fits -> ring[r * CELLS + at % CELLS] = at + 1
    :: else
    fi;
    k = FIRST_CHILD(r);
    do
    :: k < END_OF_CHILDREN(r) ->
        if
        :: !(fits && IS_NEAR(k)) -> down[k]!at
        :: else
        fi;
        k++
    :: else -> break
    od;
    k = 0;
    fits = false
}

#ifdef BUG_HEARD
#define CLEAR_HEARD(r)
#else
#define CLEAR_HEARD(r) clear_heard(r)
#endif

inline clear_heard(r) {
    k = FIRST_CHILD(r);
    do
    :: k < END_OF_CHILDREN(r) -> heard[k] = false; k++
    :: else -> break
    od;
    k = 0
}

inline end_number(r) {
    own[r] = false;
    reported[r] = false;
    single[r] = false;
    CLEAR_HEARD(r);
    if
    :: r == 0 -> counted = 0
    :: else
    fi
}

/* A number is retired; a rank that has announced it announces the tensor again, by name. The
 * coordinator retires none that it has announced itself. */
inline forget(r) {
    assert(number[r]);
    number[r] = 0;
    end_number(r);
    if
    :: r > 0 && pend[r * T + holder[r]] == BY_NUMBER ->
        pend[r * T + holder[r]] = BY_NAME;
#ifdef REACH_AGAIN
        assert(false);
#endif
#ifndef BUG_NOT_AGAIN
        whose = BIT(r);
        t = holder[r];
        announce_name(r, t, whose, length[r]);
        t = 0
#endif
    :: else
    fi;
    holder[r] = 0
}

/* A rank applies the next log message. */
inline apply(r) {
    forward(r, length[r]);
    if
    :: entry_retires[length[r]] -> forget(r)
    :: else
    fi;
    if
    :: entry[length[r]] == JOINING ->
        assert(joins[r]);
        joins[r] = false;
        passes[r] = false
    :: else ->
        t = entry[length[r]];
        if
        :: entry_number[length[r]] && !entry_gives[length[r]] ->
            assert(number[r] == entry_number[length[r]] && holder[r] == t);
            end_number(r);
            assert((entry_joined[length[r]] & BIT(r)) || pend[r * T + t] == BY_NUMBER)
        :: else ->
            assert((entry_joined[length[r]] & BIT(r)) || pend[r * T + t] == BY_NAME)
        fi;
        assert(!(entry_joined[length[r]] & BIT(r)) || pend[r * T + t] == NO);
        if
        :: entry_gives[length[r]] ->
            assert(number[r] == 0); /* two numbers in one place */
            number[r] = entry_number[length[r]];
            holder[r] = t
        :: else
        fi;
        pend[r * T + t] = NO;
        over[r * T + t]++;
        t = 0
    fi;
    length[r]++;
    if
    :: entry_retires[length[r] - 1] && r > 0 && joins[r] ->
        self = BIT(r);
        announce_join(r, self, length[r])
    :: else
    fi
}

#ifdef BUG_FREE_SINCE
#define IS_FREE(t) true
#define RETIRED_IS_FREE true
#else
#define IS_FREE(t) (free_since <= least[t])
#define RETIRED_IS_FREE false
#endif
#ifdef BUG_RETIRES_BUSY
#define IS_IDLE true
#else
#define IS_IDLE (pend[holder[0]] == NO && counted == 0)
#endif
#ifdef BUG_EARLY
#define IS_HERE(ranks) (((ranks) | joined | BIT(N - 1)) == ALL && ranks != 0)
#else
#define IS_HERE(ranks) (((ranks) | joined) == ALL && ranks != 0)
#endif

/* A name is ready: it gets the place if that is free; or the number there is retired. */
inline name_ready() {
    if
    :: number[0] == 0 && IS_FREE(what) -> gives = true
    :: number[0] != 0 && IS_IDLE ->
        entry_retires[appended] = true;
        retired_at = appended + 1;
        free_since = retired_at;
        gives = RETIRED_IS_FREE
    :: else
    fi;
    if
    :: gives ->
        entry_number[appended] = next_number;
        entry_gives[appended] = true;
        next_number++;
        gives = false
    :: else
    fi
}

#if N == 2
#define HEARD_ALL(r) (r == 1 || heard[1])
#else
#ifdef CHAIN
#define HEARD_ALL(r) (r == 2 || (r == 1 && heard[2]) || (r == 0 && heard[1]))
#else
#define HEARD_ALL(r) (r > 0 || (heard[1] && heard[2]))
#endif
#endif
#define IS_COMPLETE(r) (own[r] && HEARD_ALL(r) && !single[r] && !reported[r])

#ifdef BUG_JOIN_FIRST
#define JOINS_FIRST (joined == ALL)
#else
#define JOINS_FIRST false
#endif

#if T == 2
#define NAMED_2 0
#else
#define NAMED_2 named[2]
#endif

/* The coordinator decides: all at once that it collects member by member, the joins last. Bits
 * of the number it decides in the flush. */
inline settle() {
    do
    :: true ->
        what = (JOINS_FIRST -> JOINING : (IS_HERE(named[0]) -> 0 : (IS_HERE(named[1]) -> 1 :
            (IS_HERE(NAMED_2) -> 2 : (IS_HERE(counted) -> BITS :
            (flushes && IS_COMPLETE(0) -> BITS : (joined == ALL -> JOINING : NOTHING)))))));
        if
        :: what == NOTHING || what == JOINING
        :: else ->
            ranks = (what < T -> named[what] : (counted -> counted : ALL));
            t = (what < T -> what : holder[0]);
            entry_joined[appended] = joined & ~ranks;
            check_decided(t, ranks);
            if
            :: what < T -> named[what] = 0; name_ready()
            :: else -> entry_number[appended] = number[0]
            fi
        fi;
        if
        :: what == NOTHING -> break
        :: else ->
            entry[appended] = (what == JOINING -> JOINING : t);
            joined = (what == JOINING -> 0 : joined);
            appended++;
            apply(0)
        fi
    od;
    what = 0; ranks = 0; t = 0
}

/* ---- reading */

#ifdef BUG_RETIRED
#define COUNTS(r) true
#else
#define COUNTS(r) (number[r] != 0)
#endif

/* The parent reads the bit of a child, as it was after so many flips. */
inline look(r, child, count) {
    if
    :: (seen[child] ^ (count)) & 1 ->
        seen[child] = count;
        if
        :: COUNTS(r) -> number_heard(r, child)
        :: else
        fi
    :: else -> seen[child] = count
    fi
}

#ifdef BUG_BOARD_LATE
#define LOOKS_FIRST false
#else
#define LOOKS_FIRST (IS_NEAR(c) && shown > seen[c])
#endif
#define IS_KNOWN(r) (number[r] == tag)

inline receive(r) {
    up[c]?what, ranks, tag, shown;
    if
    :: LOOKS_FIRST -> look(r, c, shown)
    :: else
    fi;
    if
    :: what == BITS && !IS_KNOWN(r)
    :: what == BITS && IS_KNOWN(r) && ranks == BELOW(c) -> number_heard(r, c)
    :: what == BITS && IS_KNOWN(r) && ranks != BELOW(c) ->
        make_single(r);
        collect(r, ranks)
    :: what == JOINING -> announce_join(r, ranks, tag)
    :: what < T -> announce_name(r, what, ranks, tag)
    fi;
    what = 0; ranks = 0; tag = 0
}

#define IN_RING(r) (r > 0 && ring[UP(r) * CELLS + length[r] % CELLS] == length[r] + 1)

/* A rank that looks for a message has read all before it. */
#ifdef BUG_READ_STUCK
#define ASKS(r)
#else
#define ASKS(r) read[r] = length[r]
#endif

/* Reads log message `what`, and before it those in the ring. */
inline read_log(r) {
#ifdef BUG_RING_LATE
    assert(what == length[r]);
#endif
    do
    :: length[r] <= what ->
        if
        :: IS_NEAR(r) && IN_RING(r) -> read[r] = length[r] + 1
        :: else -> assert(what == length[r]) /* else entries are missing */
        fi;
        apply(r)
    :: else -> break
    od;
    ASKS(r);
    what = 0
}

/* ---- a rank */

#define MAY_SUBMIT(tensor) \
    (pend[r * T + tensor] == NO && submitted[r * T + tensor] < SUBMITS(r) && !has_joined[r])
#define CHILD(child) \
    :: AWAKE(r) && UP(child) == r && r != child && nempty(up[child]) -> act = RECEIVE; c = child \
    :: AWAKE(r) && UP(child) == r && r != child && seen[child] < flips[child] -> \
        act = LOOK; \
        c = child; \
        shown = seen[c] + 1

inline submit(r, tensor) {
    submitted[r * T + tensor]++;
    if
    :: number[r] && holder[r] == tensor ->
        pend[r * T + tensor] = BY_NUMBER;
        announce_number(r)
    :: else ->
        pend[r * T + tensor] = BY_NAME;
        self = BIT(r);
        announce_name(r, tensor, self, length[r])
    fi
}

/* To the parent: all of this subtree has announced the number. */
inline report(r) {
    reported[r] = true;
    if
    :: IS_NEAR(r) -> flips[r]++
    :: else -> whose = BELOW(r); send_up(r, BITS, whose, number[r])
    fi
}

proctype Rank(byte r)
{
    byte act = NOTHING, k = 0, t = 0, c = 0, what = 0, ranks = 0, tag = 0, shown = 0;
    byte whose = 0, self = 0;
    bool fits = false, gives = false, flushes = false;

end:
    do
    :: atomic {
        if
        :: MAY_SUBMIT(0) -> act = SUBMIT; c = 0
        :: MAY_SUBMIT(1) -> act = SUBMIT; c = 1
#if T == 3
        :: MAY_SUBMIT(2) -> act = SUBMIT; c = 2
#endif
#ifdef JOIN
        :: !has_joined[r] && ALL_SUBMITTED(r) -> act = JOIN_NOW
#endif
        CHILD(1)
#if N == 3
        CHILD(2)
#endif
        :: IS_COMPLETE(r) -> act = FLUSH
        :: AWAKE(r) && r > 0 && IS_NEAR(r) && IN_RING(r) -> act = READ; what = length[r]
        :: AWAKE(r) && r > 0 && nempty(down[r]) -> act = READ; down[r]?what
        fi;
        d_step {
            if
            :: act == SUBMIT -> submit(r, c)
            :: act == JOIN_NOW ->
                has_joined[r] = true;
                joins[r] = true;
                self = BIT(r);
                announce_join(r, self, length[r])
            :: act == RECEIVE -> receive(r)
            :: act == LOOK -> look(r, c, shown)
            :: act == READ -> read_log(r)
            :: act == FLUSH && r > 0 -> report(r)
            :: act == FLUSH && r == 0 -> flushes = true
            fi;
            if
            :: r == 0 -> settle()
            :: else
            fi;
            act = NOTHING; c = 0; shown = 0; whose = 0; self = 0; flushes = false
        }
        }
    od
}

init {
    atomic {
        run Rank(0); run Rank(1);
#if N == 3
        run Rank(2);
#endif
    }
    /* All is over: a submission that does not end is an invalid end state. */
    ALL_DECIDED && !AWAKE(0) && !AWAKE(1) && !AWAKE(N - 1);
    d_step {
        assert(appended == length[1] && appended == length[N - 1]);
        assert(over[0] == USES && over[T] == USES && over[(N - 1) * T + 1] == USES);
        /* The next log message fits in the ring. */
        assert(read[1] + CELLS > appended);
#ifdef REACH_NUMBERS
        assert(next_number < 4);
#endif
    }
}

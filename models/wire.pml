/* wire.pml: agreement over messages between nodes, and what is left in the wires.
 *
 * Three ranks, each the leader of a node, reduce a batch in three exchanges:
 *
 *     0 <-- 2    exchange 0: the sum of 2 flows to 0
 *     0 <-> 1    exchange 1: sums, both ways
 *     0 --> 2    exchange 2: the result flows back
 *
 * An exchange is a header each way (message 0: of a fixed maximum size, so that a
 * rank which knows nothing of the plan can receive it), and then a bulk message
 * where data flow. A header says: epoch, index, and clean or not; clean means
 * that its sender, and all it has heard of in this batch, have arrived. Sends are
 * rendezvous: a send ends when it is received, which is the worst case. A tag is
 * a slot and an exchange, so what is left of one batch would meet the receives of
 * a later one. A rank walks up to W batches at a time, one process for each slot.
 *
 * Exchanges: bulk flows exactly if both headers of the exchange were clean. So
 * both ends know whether it flows, whatever becomes of the batch.
 * The end: with the outcome p all ranks walk the batches up to p + W - 1, which
 * others may have begun, by headers that are not clean. Then nothing is under
 * way.
 *
 * -DW=window -DBATCHES=batches that can commit -DEPOCHS=epochs, 1 or 2
 * -DPOISONER=the only rank that poisons of its own accord */
#ifndef W
#define W 2
#endif
#ifndef BATCHES
#define BATCHES 2
#endif

#ifndef EPOCHS
#define EPOCHS 2
#endif

#define RANKS 3
#define K (BATCHES + W + 1)
#define NONE 255

/* Exchanges of a rank: 0 takes part in all three, 1 in the second, 2 in the others. */
#define FIRST(r) (r == 1 -> 1 : 0)
#define NEXT(r, x) (r == 0 -> x + 1 : (r == 2 && x == 0 -> 2 : 3))
#define PEER(r, x) (r != 0 -> 0 : (x == 1 -> 1 : 2))
#define GIVES(r, x) (x == 1 || (x == 0 && r == 2) || (x == 2 && r == 0))
#define TAKES(r, x) (x == 1 || (x == 0 && r == 0) || (x == 2 && r == 2))

/* The wire from a sender for a slot and an exchange carries: bulk or header,
 * clean, epoch, index. */
#define WIRE(from, s, x) (((s) * 3 + (x)) * RANKS + (from))
chan wire[W * 3 * RANKS + 2] = [0] of { bit, bit, byte, byte };
/* Two wires with one end, for what is not to be sent or received. */
#define NOWHERE (W * 3 * RANKS)
#define NEVER (W * 3 * RANKS + 1)
#define TO_PEER (sent -> NOWHERE : WIRE(r, s, x))
#define FROM_PEER (got -> NEVER : WIRE(PEER(r, x), s, x))

byte c[RANKS];       /* batches of this epoch that the rank has contributed to */
byte d[RANKS];       /* batches whose walk has ended */
bool bad[RANKS];     /* has poisoned */
byte out[RANKS];     /* the outcome, as far as known here */
byte wrote[RANKS];   /* batches below have been written to outputs */
byte gone;           /* walkers that have left epoch 0 */

byte arrived[K];     /* ghost: ranks that arrived at a batch of the epoch */
byte outcome = NONE; /* ghost: of the epoch */

#ifdef BUG_SHORT_WALK /* the walk ends with the poisoned batch */
#define WALKED(k) (out[r] != NONE && k > out[r])
#else
#define WALKED(k) (out[r] != NONE && k >= out[r] + W)
#endif

#ifdef POISONER
#define MAY_POISON(r) (r == POISONER)
#else
#define MAY_POISON(r) true
#endif

/* Contributes to batch k: arrives, or poisons, at a moment of its own choice. */
inline contribute() {
    if
    :: bad[r] || out[r] != NONE || k >= BATCHES -> clean = false; bad[r] = true
    :: else ->
        if
        :: clean = true; arrived[k]++
        :: MAY_POISON(r) -> clean = false; bad[r] = true
        fi
    fi;
    c[r]++
}

/* Headers, in either order. */
inline exchange_headers() {
    sent = false;
    got = false;
    heard = false;
#ifdef BUG_ONE_WAY /* headers go only where data go */
    sent = !GIVES(r, x);
    got = !TAKES(r, x);
    heard = got;
#endif
#ifdef BUG_OWN_STATUS /* says what it is itself, not what it has heard */
#define SAYS mine
#else
#define SAYS clean
#endif
    do
    :: atomic { wire[TO_PEER]!0, SAYS, e, k -> sent = true }
    :: atomic { wire[FROM_PEER]?bulk, heard, epoch, index ->
        assert(!bulk && epoch == e && index == k);
        got = true;
        epoch = 0;
        index = 0 }
    :: sent && got -> break
    od
}

/* Bulk, where data flow. What is taken stays in a buffer until the outcome is known. */
inline exchange_bulk() {
    sent = !GIVES(r, x);
    got = !TAKES(r, x);
    do
    :: atomic { wire[TO_PEER]!1, 1, e, k -> sent = true }
    :: atomic { wire[FROM_PEER]?bulk, heard, epoch, index ->
        assert(bulk && epoch == e && index == k);
        got = true;
        epoch = 0;
        index = 0;
#ifdef BUG_UNSTAGED /* reduced where it lies */
        wrote[r] = k + 1
#endif
        }
    :: sent && got -> break
    od
}

#ifdef BUG_EARLY_RECEIVE /* received whatever the peer's header says */
#define BULK_FLOWS (clean && (heard || TAKES(r, x)))
#elif defined(BUG_CHANGE_OF_MIND) /* who learns the outcome meanwhile sends none */
#define BULK_FLOWS (clean && heard && out[r] == NONE)
#else
#define BULK_FLOWS (clean && heard)
#endif

inline walk() {
    x = FIRST(r);
#ifdef BUG_SKIP /* who poisons does not walk */
    x = (mine -> x : 3);
#endif
    do
    :: x < 3 ->
        exchange_headers();
        if
        :: BULK_FLOWS -> exchange_bulk()
        :: else
        fi;
        atomic { clean = clean && heard; heard = false; sent = false; got = false;
            x = NEXT(r, x) }
    :: else -> break
    od
}

/* In the order of the batches: the first that is not clean is the outcome. */
inline decide() {
    if
    :: out[r] == NONE && clean ->
        assert(arrived[k] == RANKS && outcome > k);
        wrote[r] = k + 1
    :: out[r] == NONE && !clean ->
        assert(arrived[k] < RANKS && (outcome == NONE || outcome == k));
        assert(wrote[r] <= k);
        out[r] = k;
        outcome = k
    :: else -> assert(!clean)
    fi;
    d[r]++;
    clean = false;
    x = 0
}

/* Slow mode: nobody is logged ready, so nobody comes back, before all have
 * announced, and who announces has ended all its walks. */
inline leave() {
    gone++;
    gone >= W * RANKS;
    d_step {
        gone++;
        if
        :: gone == 2 * W * RANKS ->
            k = 0;
            do
            :: k < K -> arrived[k] = 0; k++
            :: else -> break
            od;
            c[0] = 0; c[1] = 0; c[2] = 0;
            d[0] = 0; d[1] = 0; d[2] = 0;
            bad[0] = false; bad[1] = false; bad[2] = false;
            wrote[0] = 0; wrote[1] = 0; wrote[2] = 0;
            out[0] = NONE; out[1] = NONE; out[2] = NONE;
            outcome = NONE
        :: else
        fi
    }
    gone == 2 * W * RANKS
}

proctype Slot(byte r; byte s)
{
    byte k = s, x = 0, e = 0, epoch = 0, index = 0;
    bool clean, mine, heard, sent, got;
    bit bulk;

again:
    do
    :: atomic { c[r] == k && k < d[r] + W && !WALKED(k) -> contribute(); mine = clean };
        walk();
        atomic { d[r] == k -> decide(); mine = false };
        k = k + W
    :: atomic { WALKED(k) -> break }
    od;
    if
    :: e + 1 < EPOCHS ->
        leave();
        atomic { e = 1; k = s };
        goto again
    :: else
    fi
}

init {
    byte i = 0;

    atomic {
        out[0] = NONE; out[1] = NONE; out[2] = NONE;
        do
        :: i < RANKS * W -> run Slot(i % RANKS, i / RANKS); i++
        :: else -> break
        od
    }
}

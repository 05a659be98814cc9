/* credits.pml: slots of shared memory are used again, within an epoch and across
 * its end.
 *
 * Each rank owns S slots. At batch k of an epoch it writes a record (where its
 * data lie, or small operands) into a slot and then the mark of that slot: ARRIVE
 * or POISON, with epoch and index. When all have arrived, the others read the
 * record and the data; then the reader counts the batch as released. A batch has
 * a sequence number, base + k, which says the slot. The base of the next epoch is
 * larger by the outcome: numbers are given to what commits, so those of a
 * poisoned batch are used again, and counts of what was released never wait for
 * it.
 *
 * A slot is written, be it by a poison, when all have released the batch that it
 * held.
 *
 * -DN=ranks -DW=window -DS=slots -DM=batches that can commit in an epoch
 * -DEPOCHS=epochs */
#ifndef N
#define N 2
#endif
#ifndef W
#define W 2
#endif
#ifndef S
#define S 2
#endif
#ifndef M
#define M 3
#endif
#ifndef EPOCHS
#define EPOCHS 2
#endif

#define STRIDE 16
#define ARRIVE(k) (1 + (epoch[r] * STRIDE + (k)) * 2)
#define POISON(k) (2 + (epoch[r] * STRIDE + (k)) * 2)
#define RECORD(k) (1 + epoch[r] * STRIDE + (k))
#define SEQ(k) (base[r] + (k))
#define SLOT(q, k) ((q) * S + SEQ(k) % S)

byte mark[N * S]; /* each written by its owner, read by all */
byte record[N * S];
byte released[N]; /* written by its rank: batches whose records and data it has read */

byte epoch[N], base[N];
byte c[N]; /* contributed in this epoch */
byte d[N]; /* outcome known */
byte f[N]; /* batches of all epochs that the rank's application may use again */
bool written[N]; /* the record of c */
bool over[N];    /* poisoned, or done */
bool slow[N];
byte leavers[EPOCHS];

byte outcome[EPOCHS]; /* ghost: 1 + the outcome */
byte due[N * S];      /* ghost: the records that belong to the batch being read */

#ifdef BUG_OTHER_EPOCH /* a mark says the index only */
#define SAYS(q, what) (mark[SLOT(q, d[r])] != 0 && \
    (mark[SLOT(q, d[r])] - 1) % (2 * STRIDE) == (what - 1) % (2 * STRIDE))
#else
#define SAYS(q, what) (mark[SLOT(q, d[r])] == what)
#endif
#define HAS_READ(q, k) (SEQ(k) < S || released[q] + S > SEQ(k))
#define IS_DONE(q) (released[q] > f[r])

#if N == 2
#define ALL_ARRIVED (SAYS(0, ARRIVE(d[r])) && SAYS(1, ARRIVE(d[r])))
#define ANY_POISONED (SAYS(0, POISON(d[r])) || SAYS(1, POISON(d[r])))
#define ALL_READ(k) (HAS_READ(0, k) && HAS_READ(1, k))
#define ALL_DONE (IS_DONE(0) && IS_DONE(1))
#else
#define ALL_ARRIVED \
    (SAYS(0, ARRIVE(d[r])) && SAYS(1, ARRIVE(d[r])) && SAYS(2, ARRIVE(d[r])))
#define ANY_POISONED \
    (SAYS(0, POISON(d[r])) || SAYS(1, POISON(d[r])) || SAYS(2, POISON(d[r])))
#define ALL_READ(k) (HAS_READ(0, k) && HAS_READ(1, k) && HAS_READ(2, k))
#define ALL_DONE (IS_DONE(0) && IS_DONE(1) && IS_DONE(2))
#endif

#ifdef BUG_NO_CREDITS /* the window alone protects the slots */
#define CREDIT(k) true
#else
#define CREDIT(k) ALL_READ(k)
#endif
#ifdef BUG_POISON_WITHOUT
#define POISON_CREDIT(k) true
#else
#define POISON_CREDIT(k) CREDIT(k)
#endif
#ifdef BUG_FREE_EARLY /* done when it has read itself */
#define FREE (released[r] > f[r])
#else
#define FREE ALL_DONE
#endif
#define MAY_MARK(r) (!slow[r] && !over[r] && c[r] < d[r] + W)

proctype Rank(byte r)
{
    byte peer = 0; /* whose record is read next */

    do
#ifdef BUG_MARK_FIRST
    :: d_step { MAY_MARK(r) && c[r] < M && CREDIT(c[r]) && !written[r] ->
        mark[SLOT(r, c[r])] = ARRIVE(c[r]);
        written[r] = true }
    :: d_step { MAY_MARK(r) && written[r] ->
        record[SLOT(r, c[r])] = RECORD(c[r]);
        written[r] = false;
        c[r]++ }
#else
    :: d_step { MAY_MARK(r) && c[r] < M && CREDIT(c[r]) && !written[r] ->
        record[SLOT(r, c[r])] = RECORD(c[r]);
        written[r] = true }
    :: d_step { MAY_MARK(r) && written[r] ->
        mark[SLOT(r, c[r])] = ARRIVE(c[r]);
        written[r] = false;
        c[r]++ }
#endif
    :: d_step { MAY_MARK(r) && !written[r] && POISON_CREDIT(c[r]) ->
        mark[SLOT(r, c[r])] = POISON(c[r]);
        over[r] = true }
    :: d_step { !slow[r] && c[r] > d[r] && ALL_ARRIVED ->
        due[SLOT(r, d[r])] = RECORD(d[r]);
        d[r]++ }
    :: d_step { /* the outcome */
        !slow[r] && ANY_POISONED ->
        assert(outcome[epoch[r]] == 0 || outcome[epoch[r]] == 1 + d[r]);
        outcome[epoch[r]] = 1 + d[r];
        slow[r] = true;
        leavers[epoch[r]]++ }
    :: d_step { /* reads what committed, one rank after the other */
        base[r] + d[r] > released[r] && peer < N ->
        assert(record[peer * S + released[r] % S] == due[r * S + released[r] % S]);
        peer++ }
    :: d_step { peer == N -> due[r * S + released[r] % S] = 0; released[r]++; peer = 0 }
    :: d_step { /* the application changes its tensor */
        released[r] > f[r] && FREE ->
        if
        :: SEQ(c[r]) + written[r] <= f[r] + S -> record[r * S + f[r] % S] = 0
        :: else /* that slot already holds a later batch */
        fi;
        f[r]++ }
    :: d_step { /* all have announced, so all have left */
#ifdef BUG_ENTER_EARLY
        slow[r] && epoch[r] + 1 < EPOCHS ->
#else
        slow[r] && epoch[r] + 1 < EPOCHS && leavers[epoch[r]] == N ->
#endif
#ifdef BUG_GAPS /* numbers of poisoned batches are not used again */
        base[r] = base[r] + d[r] + W;
#else
        base[r] = base[r] + d[r];
#endif
        epoch[r]++;
        c[r] = 0;
        d[r] = 0;
        over[r] = false;
        written[r] = false;
        slow[r] = false }
    :: slow[r] && epoch[r] + 1 == EPOCHS && released[r] == base[r] + d[r] &&
            f[r] == released[r] ->
        break
    od
}

init {
    byte i = 0;

    atomic {
        do
        :: i < N -> run Rank(i); i++
        :: else -> break
        od
    }
}

/*
 * Mailboxes within one process.
 *
 * All ends share one post office with a mailbox per rank. A mailbox is mail (one
 * buffer of messages) under a mutex: send() appends to it, poll() swaps it for the
 * buffer that the poll before emptied and delivers from what it took, without the lock.
 * Once both buffers have grown to what a turn needs, nothing is allocated.
 */
#include "transport/inproc.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/wire.h"
#include "transport/mail.h"

/* A buffer that grew beyond this for one large message is given back. */
enum {
    BUFFER_KEPT_MAX = 1 << 20
};

struct mailbox {
    _Alignas(64) pthread_mutex_t mutex; /* guards `arrived` and `closed` */
    struct wire_writer arrived; /* mail nobody has taken; owned */
    bool closed; /* the rank has left: drop what is sent */
    _Atomic bool has_mail; /* arrived is not empty; written under mutex */
    struct doorbell *bell; /* of the rank; borrowed */
};

struct post_office {
    _Atomic int open; /* ends not yet closed; the last one frees this */
    int size; /* ranks */
    struct mailbox boxes[]; /* [size] */
};

/* One rank's end. */
struct inproc {
    struct post_office *office; /* shared by all ends */
    int rank; /* whose end this is */
    struct wire_writer taken; /* mail being delivered; owned */
};

static tutti_status inproc_send(void *state, int to, const void *bytes, size_t len)
{
    const struct inproc *inproc = state;
    struct mailbox *box = &inproc->office->boxes[to];
    bool ok = true;

    (void)pthread_mutex_lock(&box->mutex);
    if (!box->closed) {
        ok = mail_put(&box->arrived, inproc->rank, bytes, len);
        if (ok) {
            /* pairs with the acquire in inproc_poll() */
            atomic_store_explicit(&box->has_mail, true, memory_order_release);
            /* under the mutex, because a closed rank's bell may be gone */
            doorbell_ring(box->bell);
        }
    }
    (void)pthread_mutex_unlock(&box->mutex);
    if (!ok) {
        return error_set(TUTTI_ERR_NO_MEMORY,
                "out of memory for a message of %zu bytes to rank %d", len, to);
    }
    return TUTTI_OK;
}

/* Exchanges the mailbox's buffer for the empty one. */
static void mailbox_take(struct mailbox *box, struct wire_writer *taken)
{
    struct wire_writer empty = *taken;

    (void)pthread_mutex_lock(&box->mutex);
    *taken = box->arrived;
    box->arrived = empty;
    atomic_store_explicit(&box->has_mail, false, memory_order_relaxed);
    (void)pthread_mutex_unlock(&box->mutex);
}

static tutti_status inproc_poll(void *state, transport_deliver deliver, void *user)
{
    struct inproc *inproc = state;
    struct mailbox *box = &inproc->office->boxes[inproc->rank];

    /* pairs with the release in inproc_send(); spares idle polls the mutex */
    if (!atomic_load_explicit(&box->has_mail, memory_order_acquire)) {
        return TUTTI_AGAIN;
    }
    mailbox_take(box, &inproc->taken);
    mail_deliver(&inproc->taken, deliver, user);
    if (inproc->taken.capacity > BUFFER_KEPT_MAX) {
        wire_writer_fini(&inproc->taken);
    }
    return TUTTI_OK;
}

static bool inproc_flushed(void *state)
{
    (void)state;
    return true;
}

static void inproc_wake(void *state, int rank)
{
    const struct inproc *inproc = state;
    struct mailbox *box = &inproc->office->boxes[rank];

    (void)pthread_mutex_lock(&box->mutex);
    if (!box->closed) {
        doorbell_ring(box->bell);
    }
    (void)pthread_mutex_unlock(&box->mutex);
}

static void office_release(struct post_office *office)
{
    int rank;

    /* acquire and release: what other ends did comes before the memory is freed */
    if (atomic_fetch_sub_explicit(&office->open, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (rank = 0; rank < office->size; rank++) {
        wire_writer_fini(&office->boxes[rank].arrived);
        (void)pthread_mutex_destroy(&office->boxes[rank].mutex);
    }
    mem_free(office);
}

static void inproc_close(void *state)
{
    struct inproc *inproc = state;
    struct mailbox *box = &inproc->office->boxes[inproc->rank];

    (void)pthread_mutex_lock(&box->mutex);
    box->closed = true;
    (void)pthread_mutex_unlock(&box->mutex);
    office_release(inproc->office);
    wire_writer_fini(&inproc->taken);
    mem_free(inproc);
}

static const struct transport_ops inproc_ops = {
    .name = "inproc",
    .wakes = true,
    .send = inproc_send,
    .poll = inproc_poll,
    .flushed = inproc_flushed,
    .wake = inproc_wake,
    .close = inproc_close,
};

/* An office without ends; NULL when out of memory. */
static struct post_office *office_create(int n, struct doorbell *bells)
{
    struct post_office *office;
    size_t bytes;
    int rank;

    if (!size_mul((size_t)n, sizeof office->boxes[0], &bytes) ||
            bytes > SIZE_MAX - sizeof *office) {
        return NULL;
    }
    office = mem_alloc_aligned(sizeof *office + bytes);
    if (office == NULL) {
        return NULL;
    }
    office->size = n;
    for (rank = 0; rank < n; rank++) {
        office->boxes[rank].bell = &bells[rank];
        (void)pthread_mutex_init(&office->boxes[rank].mutex, NULL);
    }
    return office;
}

tutti_status transport_inproc_open(
        int n, struct doorbell *bells, struct transport *controls)
{
    struct post_office *office = office_create(n, bells);
    int rank;

    if (office == NULL) {
        return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %d mailboxes", n);
    }
    /* One count for this function, so that closing on failure leaves the office. */
    atomic_store_explicit(&office->open, 1, memory_order_relaxed);
    for (rank = 0; rank < n; rank++) {
        struct inproc *inproc = mem_calloc(1, sizeof *inproc);

        if (inproc == NULL) {
            goto err_close;
        }
        *inproc = (struct inproc){ .office = office, .rank = rank };
        atomic_fetch_add_explicit(&office->open, 1, memory_order_relaxed);
        controls[rank] = (struct transport){
            .ops = &inproc_ops,
            .state = inproc,
            .rank = rank,
            .size = n,
        };
    }
    office_release(office);
    return TUTTI_OK;

err_close:
    while (rank > 0) {
        inproc_close(controls[--rank].state);
    }
    office_release(office);
    return error_set(TUTTI_ERR_NO_MEMORY, "out of memory for %d mailboxes", n);
}

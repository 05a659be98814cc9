/*
 * A heap of events, and when messages arrive.
 */
#include "tools/scale/network.h"

#include <math.h>

#include "test/sim/grow.h"

void network_init(
        struct network *network, const struct model *model, int ranks, uint64_t seed)
{
    const size_t nodes = (size_t)(ranks - 1) / (size_t)model->per_node + 1;

    *network = (struct network){ .model = model, .rng = rng_seeded(seed) };
    network->out_free = sim_alloc(nodes, sizeof *network->out_free);
    network->in_free = sim_alloc(nodes, sizeof *network->in_free);
    network->last_in = sim_alloc((size_t)ranks, sizeof *network->last_in);
}

void network_fini(struct network *network)
{
    for (size_t i = 0; i < network->count; i++) {
        free(network->events[i].mail);
    }
    free(network->events);
    free(network->out_free);
    free(network->in_free);
    free(network->last_in);
}

double network_random(struct network *network)
{
    return (double)(rng_next(&network->rng) >> 11) * 0x1p-53;
}

/* -------------------------------------------------------------------- events */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_ns < b->at_ns || (a->at_ns <= b->at_ns && a->order < b->order);
}

void network_at(struct network *network, double at_ns, int rank, struct mail *mail)
{
    const struct event event = {
        .at_ns = at_ns, .order = network->order++, .rank = rank, .mail = mail
    };
    size_t i = network->count++;

    if (network->count > network->capacity) {
        network->capacity = 2 * network->count + 1024;
        network->events =
                realloc(network->events, network->capacity * sizeof *network->events);
        if (network->events == NULL) {
            abort();
        }
    }
    while (i > 0 && is_before(&event, &network->events[(i - 1) / 2])) {
        network->events[i] = network->events[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    network->events[i] = event;
}

bool network_next(struct network *network, struct event *event)
{
    struct event *heap = network->events;
    struct event last;
    size_t i = 0;

    if (network->count == 0) {
        return false;
    }
    *event = heap[0];
    last = heap[--network->count];
    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < network->count && is_before(&heap[child + 1], &heap[child])) {
            child++;
        }
        if (child >= network->count || !is_before(&heap[child], &last)) {
            heap[i] = last;
            return true;
        }
        heap[i] = heap[child];
        i = child;
    }
}

/* ------------------------------------------------------------------ messages */

/* When a link that is busy until *free_ns has passed on the bytes, which come at `at_ns`. */
static double pass(double *free_ns, double at_ns, double bytes_ns)
{
    *free_ns = (at_ns > *free_ns ? at_ns : *free_ns) + bytes_ns;
    return *free_ns;
}

void network_send(struct network *network, double at_ns, struct mail *mail)
{
    const struct model *model = network->model;
    const int from = mail->from / model->per_node;
    const int to = mail->to / model->per_node;
    const double bytes_ns = model->byte_ns * (model->header_bytes + (double)mail->len);
    const double jitter_ns = -model->jitter_ns * log(1 - network_random(network));

    if (from == to) {
        at_ns = pass(&network->last_in[mail->to], at_ns + model->local_ns, 0);
    } else {
        at_ns = pass(&network->out_free[from], at_ns, bytes_ns);
        at_ns = pass(&network->in_free[to],
                at_ns - bytes_ns + model->latency_ns + jitter_ns, bytes_ns);
    }
    network_at(network, at_ns, mail->to, mail);
}

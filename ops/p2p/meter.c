/*
 * A spell is a time in which something of a rank is awaited without a break, at most SPELL_NS long.
 * What it took, compared with what the link would have taken for its bytes when it was measured
 * at the start, is its slowness. That of a rank is the median of its spells, found by steps: up
 * when a spell was slower, else down. So a rank that was stopped for a second, or a crowded
 * machine, changes little, and a link that has become slow is known after a dozen spells.
 */
#include "ops/p2p/meter.h"

#include "base/mem.h"
#include "observe/recorder.h"

#define SPELL_NS INT64_C(50000000)
/* By so much the peer may begin a batch later, which is no fault of the link. */
#define SLACK_US 1000.0
/* Shorter spells, by what the link would take, move the median by less. */
#define FULL_US 1000.0
/* Of a spell that counts in full. */
#define STEP 0.2
#define SLOWNESS_MAX 1e6
#define SLOWNESS_MIN 1e-2
/* What is behind is forgotten in so many ns of waiting. */
#define MEMORY_NS 2.5e8

struct meter_peer {
    int awaited; /* messages                                          */
    int64_t since_ns; /* this spell                                   */
    size_t bytes; /* that have come in it                             */
    double slowness; /* median of spells                              */
    double weight; /* spells that counted in full                     */
    double sum_bytes, sum_ns; /* of spells, of late                    */
};

void meter_init(struct meter *meter, const struct op_env *env)
{
    *meter = (struct meter){ .link = &env->link, .links = env->links };
    if (env->links != NULL && env->link.bytes_per_us > 0) {
        meter->peers = mem_calloc((size_t)env->world_size, sizeof *meter->peers);
    }
}

void meter_fini(struct meter *meter)
{
    mem_free(meter->peers);
    meter->peers = NULL;
}

void meter_await(struct meter *meter, int world_rank, int64_t now)
{
    struct meter_peer *peer = &meter->peers[world_rank];

    if (peer->awaited++ == 0) {
        peer->since_ns = now;
        peer->bytes = 0;
    }
}

static void publish(struct recorder_link *link, const struct meter_peer *peer)
{
    const double kbs = peer->sum_bytes / peer->sum_ns * 1e6;

    atomic_store_explicit(&link->slowness,
            (uint32_t)(peer->slowness * RECORDER_LINK_UNIT), memory_order_relaxed);
    atomic_store_explicit(&link->kbs, kbs < UINT32_MAX ? (uint32_t)kbs : UINT32_MAX,
            memory_order_relaxed);
    atomic_store_explicit(&link->weight, (uint32_t)peer->weight, memory_order_relaxed);
}

static void end_spell(struct meter *meter, int world_rank, int64_t ns)
{
    struct meter_peer *peer = &meter->peers[world_rank];
    const double expected_us = (double)peer->bytes / meter->link->bytes_per_us;
    const double slowness =
            (double)ns / 1e3 / (meter->link->latency_us + expected_us + SLACK_US);
    const double weight = expected_us < FULL_US ? expected_us / FULL_US : 1;
    const double step = 1 + STEP * weight;

    if (peer->weight == 0) {
        peer->slowness = slowness;
    } else if (slowness > peer->slowness) {
        peer->slowness *= step;
    } else {
        peer->slowness /= step;
    }
    peer->slowness = peer->slowness > SLOWNESS_MAX ? SLOWNESS_MAX : peer->slowness;
    peer->slowness = peer->slowness < SLOWNESS_MIN ? SLOWNESS_MIN : peer->slowness;
    peer->weight += weight;
    peer->sum_bytes += (double)peer->bytes;
    peer->sum_ns += (double)ns + 1; /* to divide by */
    if (peer->sum_ns > 2 * MEMORY_NS) {
        peer->sum_bytes /= 2;
        peer->sum_ns /= 2;
    }
    publish(&meter->links[world_rank], peer);
}

void meter_arrived(struct meter *meter, int world_rank, size_t bytes, int64_t now)
{
    struct meter_peer *peer = &meter->peers[world_rank];

    peer->awaited--;
    peer->bytes += bytes;
    if (peer->awaited == 0 || now - peer->since_ns >= SPELL_NS) {
        end_spell(meter, world_rank, now - peer->since_ns);
        peer->since_ns = now;
        peer->bytes = 0;
    }
}

/*
 * How much of a rank's output reaches the console.
 */
#include "launcher/exec/rate.h"

static const int64_t second = 1000000000;

void rate_init(struct rate *rate, uint64_t per_second, int64_t now)
{
    /* More than this is no limit, and would overflow. */
    if (per_second > (uint64_t)1 << 32) {
        per_second = 0;
    }
    *rate = (struct rate){
        .per_second = per_second,
        .credit = (int64_t)per_second,
        .filled = now,
    };
}

static void fill(struct rate *rate, int64_t now)
{
    int64_t full = (int64_t)rate->per_second;
    int64_t passed = now - rate->filled;
    int64_t more;

    if (passed >= 2 * second) {
        rate->credit = full;
        rate->filled = now;
        return;
    }
    more = (int64_t)((double)full * (double)passed / (double)second);
    if (more > 0) {
        rate->credit = rate->credit + more > full ? full : rate->credit + more;
        rate->filled = now;
    }
}

bool rate_take(struct rate *rate, size_t bytes, int64_t now)
{
    if (rate->per_second == 0) {
        return true;
    }
    fill(rate, now);
    if (rate->credit <= 0) {
        rate->dropping = rate->dropped == 0 ? now : rate->dropping;
        rate->dropped++;
        return false;
    }
    rate->credit -= (int64_t)bytes;
    return true;
}

int64_t rate_due(const struct rate *rate)
{
    return rate->dropped > 0 ? rate->dropping + second : INT64_MAX;
}

uint64_t rate_told(struct rate *rate)
{
    uint64_t dropped = rate->dropped;

    rate->dropped = 0;
    return dropped;
}

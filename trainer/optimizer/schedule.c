/*
 * Learning rates by step.
 */
#include <math.h>

#include <tutti/trainer/optimizer.h>

/* How much of the way from the end of the warm-up to `steps` is behind: 0 to 1. */
static double progress(const tutti_schedule *schedule, int64_t step)
{
    const int64_t length = schedule->steps - schedule->warmup;

    if (step >= schedule->steps || length <= 0) {
        return 1;
    }
    return (double)(step - schedule->warmup) / (double)length;
}

static double decayed(const tutti_schedule *schedule, int64_t step)
{
    double rate = schedule->learning_rate;

    if (schedule->period >= 1) {
        for (int64_t n = (step - schedule->warmup) / schedule->period; n > 0; n--) {
            rate *= schedule->factor;
        }
    }
    return rate;
}

double tutti_learning_rate(const tutti_schedule *schedule, int64_t step)
{
    const double pi = 3.14159265358979323846;
    const double peak = schedule->learning_rate;
    const double drop = peak - schedule->final_rate;

    step = step < 0 ? 0 : step;
    if (step < schedule->warmup) {
        return schedule->warmup_from +
                (peak - schedule->warmup_from) * (double)step /
                (double)schedule->warmup;
    }
    switch (schedule->kind) {
    case TUTTI_SCHEDULE_CONSTANT:
        return peak;
    case TUTTI_SCHEDULE_STEP:
        return decayed(schedule, step);
    case TUTTI_SCHEDULE_COSINE:
        return schedule->final_rate +
                drop * (0.5 * (1 + cos(pi * progress(schedule, step))));
    case TUTTI_SCHEDULE_LINEAR:
        return schedule->final_rate + drop * (1 - progress(schedule, step));
    }
    return peak;
}

double tutti_scale_lr(double learning_rate, int ranks)
{
    return learning_rate * (ranks < 1 ? 1 : ranks);
}

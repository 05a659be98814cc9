#include "launcher/elastic/discovery.h"

#include <stdio.h>

#include "base/clock.h"
#include "launcher/hosts/script_hosts.h"

static const int64_t pause_ns = 1000000000; /* as horovodrun has it */
static const int64_t limit_ns = 60000000000;

void discovery_begin(struct discovery *discovery, struct loop *loop)
{
    discovery->loop = loop;
    discovery->due = clock_ns() + pause_ns;
}

void discovery_end(struct discovery *discovery)
{
    if (discovery->is_asked) {
        process_fini(&discovery->process);
        discovery->is_asked = false;
    }
    discovery->loop = NULL;
}

/* The hosts stay as they were. */
static void send_failure(struct discovery *discovery)
{
    if (!discovery->has_failed) {
        (void)fprintf(stderr, "tuttirun: the hosts stay as they are: %s\n",
                tutti_last_error());
    }
    discovery->has_failed = true;
}

static void ask(struct discovery *discovery, int64_t now)
{
    char *const argv[] = { discovery->path, NULL };

    if (process_start_group(&discovery->process, argv, discovery->environment) !=
            TUTTI_OK) {
        send_failure(discovery);
        discovery->due = now + pause_ns;
        return;
    }
    process_close_input(&discovery->process);
    process_watch(&discovery->process, discovery->loop);
    discovery->is_asked = true;
    discovery->due = now + limit_ns;
}

static bool take(struct discovery *discovery, struct host_list *list)
{
    tutti_status status = script_hosts_take(&discovery->process, discovery->path, list);

    if (status == TUTTI_OK) {
        status = host_list_imply(list, discovery->slots);
    }
    if (status != TUTTI_OK) {
        send_failure(discovery);
        return false;
    }
    discovery->has_failed = false;
    return true;
}

bool discovery_turn(struct discovery *discovery, int64_t now, struct host_list *list)
{
    bool has_answered = false;

    if (discovery->path[0] == '\0' || discovery->loop == NULL) {
        return false;
    }
    if (!discovery->is_asked && now >= discovery->due) {
        ask(discovery, now);
    } else if (discovery->is_asked &&
            (discovery->process.has_ended || now >= discovery->due)) {
        has_answered = discovery->process.has_ended && take(discovery, list);
        process_fini(&discovery->process); /* kills one that takes too long */
        discovery->is_asked = false;
        discovery->due = now + pause_ns;
    }
    return has_answered;
}

int64_t discovery_next(const struct discovery *discovery)
{
    return discovery->path[0] == '\0' || discovery->loop == NULL ? INT64_MAX
                                                                 : discovery->due;
}

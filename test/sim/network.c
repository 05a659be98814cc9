/*
 * The simulated network.
 */
#include "network.h"

#include "grow.h"

void network_init(struct network *network, int ranks)
{
    const size_t links = (size_t)ranks * (size_t)ranks;

    *network = (struct network){ .ranks = ranks };
    network->links = sim_alloc(links, sizeof *network->links);
    network->busy = sim_alloc(links, sizeof *network->busy);
}

void network_fini(struct network *network)
{
    while (network->busy_count > 0) {
        free(network_take(network, 0));
    }
    free(network->links);
    free(network->busy);
}

void network_send(
        struct network *network, const struct message *head, const void *bytes)
{
    const int index = head->from * network->ranks + head->to;
    struct link *link = &network->links[index];
    struct message *message = sim_alloc(1, sizeof *message + head->len);

    *message = *head;
    message->next = NULL;
    memcpy(message->bytes, bytes, head->len);
    if (link->first == NULL) {
        link->first = message;
        link->position = network->busy_count;
        network->busy[network->busy_count++] = index;
    } else {
        link->last->next = message;
    }
    link->last = message;
}

struct message *network_take(struct network *network, int index)
{
    struct link *link = &network->links[network->busy[index]];
    struct message *message = link->first;

    link->first = message->next;
    if (link->first == NULL) {
        const int last = network->busy[--network->busy_count];

        network->busy[index] = last;
        network->links[last].position = index;
    }
    return message;
}

int network_target(const struct network *network, int index)
{
    return network->busy[index] % network->ranks;
}

void network_drop(struct network *network, int rank)
{
    int index = 0;

    while (index < network->busy_count) {
        if (network_target(network, index) == rank) {
            free(network_take(network, index));
        } else {
            index++;
        }
    }
}

/*
 * Lists of hosts: of -H, of hostfiles, and in Slurm's notations.
 */
#include <string.h>

#include "base/mem.h"
#include "fuzz.h"
#include "launcher/hosts/host_list.h"
#include "launcher/hosts/slurm_lists.h"

/* What is accepted is written as it is read. */
static void take_again(const struct host_list *list)
{
    char *text = host_list_format(list);
    struct host_list again = { 0 };

    REQUIRE(text != NULL);
    REQUIRE(list->count == 0 || host_list_parse(&again, text) == TUTTI_OK);
    REQUIRE(again.count == list->count);
    REQUIRE(host_list_slots(&again) == host_list_slots(list));
    host_list_fini(&again);
    mem_free(text);
}

static void take_file(char *text)
{
    struct host_list list = { 0 };
    FILE *file = fmemopen(text, strlen(text), "r");

    REQUIRE(file != NULL);
    if (host_list_read_stream(&list, file, "file") == TUTTI_OK) {
        take_again(&list);
    }
    (void)fclose(file);
    host_list_fini(&list);
}

static void take_slurm(const char *text)
{
    struct arguments names = { 0 };
    int counts[4];

    if (slurm_hosts(&names, text, "LIST") == TUTTI_OK) {
        REQUIRE(names.count <= HOSTS_LIMIT);
    }
    arguments_fini(&names);
    (void)!slurm_counts(counts, 4, text, "COUNTS");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = { data, size };
    const int how = fuzz_byte(&input) % 3;
    char *text = fuzz_text(&input);
    struct host_list list = { 0 };

    if (how == 0 && host_list_parse(&list, text) == TUTTI_OK) {
        take_again(&list);
    } else if (how == 1 && text[0] != '\0') {
        take_file(text);
    } else if (how == 2) {
        take_slurm(text);
    }
    host_list_fini(&list);
    free(text);
    return 0;
}

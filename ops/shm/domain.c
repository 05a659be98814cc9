/*
 * The segments of the ranks of one process.
 */
#include <sys/mman.h>

#include "base/mem.h"
#include "ops/shm/segment.h"
#include "ops/shm/shm.h"

/*
 * A zeroed segment of which only the touched pages exist: no reservation of swap, and no
 * huge pages, of which a single control word would take a whole one.
 */
static struct shm_segment *segment_map(void)
{
    void *memory = mmap(NULL, sizeof(struct shm_segment), PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(memory, sizeof(struct shm_segment), MADV_NOHUGEPAGE);
    return memory;
}

static void segment_unmap(const struct shm_rank *rank)
{
    for (uint32_t row = 0; row < rank->rows; row++) {
        for (int slot = 0; slot < OP_INFLIGHT_MAX; slot++) {
            mem_free(rank->segment->slots[row][slot].table);
        }
    }
    (void)munmap(rank->segment, sizeof *rank->segment);
}

struct shm_domain *shm_domain_create(int ranks)
{
    struct shm_domain *domain = mem_calloc(1, sizeof *domain);

    if (domain == NULL) {
        return NULL;
    }
    domain->rank = mem_calloc((size_t)ranks, sizeof *domain->rank);
    if (domain->rank == NULL) {
        goto err_free;
    }
    for (domain->ranks = 0; domain->ranks < ranks; domain->ranks++) {
        struct shm_segment *segment = segment_map();

        if (segment == NULL) {
            goto err_destroy;
        }
        domain->rank[domain->ranks].segment = segment;
    }
    return domain;

err_destroy:
    shm_domain_destroy(domain);
    return NULL;
err_free:
    mem_free(domain);
    return NULL;
}

void shm_domain_destroy(struct shm_domain *domain)
{
    if (domain == NULL) {
        return;
    }
    for (int i = 0; i < domain->ranks; i++) {
        segment_unmap(&domain->rank[i]);
    }
    mem_free(domain->rank);
    mem_free(domain);
}

/*
 * A page that the system gives to children filled with zeros.
 */
#include "base/forkmark.h"

#include <sys/mman.h>
#include <unistd.h>

void forkmark_init(struct forkmark *mark)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(
            NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    mark->page = NULL;
    if (page == MAP_FAILED) {
        return;
    }
    if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, bytes);
        return;
    }
    mark->page = page;
    atomic_store_explicit(mark->page, 1, memory_order_relaxed);
}

void forkmark_fini(struct forkmark *mark)
{
    if (mark->page != NULL) {
        (void)munmap(mark->page, (size_t)sysconf(_SC_PAGESIZE));
        mark->page = NULL;
    }
}

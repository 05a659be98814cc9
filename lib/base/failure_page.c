/*
 * The failure page of a rank and its supervisor: a sealed memfd.
 */
#include "base/failure_page.h"

#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

/* Tells our page from whatever else a descriptor may be: "TUTTIFPG". */
#define PAGE_MAGIC UINT64_C(0x4750464954545554)

enum {
    PAGE_BYTES = 4096,
    PAGE_FD_MAX = 1 << 20 /* no process has more descriptors */
};

struct shared_page {
    uint64_t magic;
    _Atomic uint32_t stage; /* enum library_stage; written by the library    */
    _Atomic uint32_t is_posted; /* 1: rank and text are there; by the supervisor */
    int32_t rank;
    char text[FAILURE_PAGE_TEXT_MAX];
    _Atomic uint32_t contexts; /* that are alive; by the library */
    _Atomic uint32_t suspicions; /* that were written; odd: one is being written */
    _Atomic char suspicion[FAILURE_PAGE_SUSPICION_MAX]; /* terminated; "": none */
    _Atomic uint32_t failure; /* enum context_failure; by the library */
    char awaited[FAILURE_PAGE_AWAITED_MAX]; /* the same; read when it has ended  */
};

static_assert(sizeof(struct shared_page) <= PAGE_BYTES, "fits its page");

tutti_status failure_page_create(struct failure_page *page)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    tutti_status status;
    void *shared;
    /* Inherited over exec on purpose: the program finds it by its number. */
    int fd = memfd_create("tutti-failure-page", MFD_ALLOW_SEALING);

    if (fd < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "create the page of a rank");
    }
    if (ftruncate(fd, PAGE_BYTES) != 0 || fcntl(fd, F_ADD_SEALS, seals) != 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "size the page of a rank");
        goto err_close;
    }
    shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "map the page of a rank");
        goto err_close;
    }
    *page = (struct failure_page){ .shared = shared, .fd = fd };
    page->shared->magic = PAGE_MAGIC;
    return TUTTI_OK;

err_close:
    (void)close(fd);
    return status;
}

void failure_page_post(struct failure_page *page, int rank, const char *text)
{
    struct shared_page *shared = page->shared;

    if (shared == NULL ||
            atomic_load_explicit(&shared->is_posted, memory_order_relaxed) != 0) {
        return;
    }
    shared->rank = rank;
    (void)snprintf(shared->text, sizeof shared->text, "%s", text);
    /* Pairs with the acquire of failure_page_is_posted(): rank and text are there. */
    atomic_store_explicit(&shared->is_posted, 1, memory_order_release);
}

void failure_page_suspect(struct failure_page *page, const char *text)
{
    struct shared_page *shared = page->shared;
    char copy[FAILURE_PAGE_SUSPICION_MAX] = "";
    uint32_t count;

    if (shared == NULL) {
        return;
    }
    count = atomic_load_explicit(&shared->suspicions, memory_order_relaxed);
    atomic_store_explicit(&shared->suspicions, count + 1, memory_order_relaxed);
    /* Pairs with the fence of failure_page_suspicion(): who reads a letter sees the odd count. */
    atomic_thread_fence(memory_order_release);
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (size_t i = 0; i < sizeof copy; i++) {
        atomic_store_explicit(&shared->suspicion[i], copy[i], memory_order_relaxed);
    }
    /* Pairs with the acquire of failure_page_suspicion(): the text is there. */
    atomic_store_explicit(&shared->suspicions, count + 2, memory_order_release);
}

/* What the program wrote is not believed further than it makes sense. */
enum library_stage failure_page_stage(const struct failure_page *page)
{
    uint32_t stage = page->shared == NULL
            ? LIBRARY_STAGE_NONE
            : atomic_load_explicit(&page->shared->stage, memory_order_relaxed);

    return stage <= LIBRARY_STAGE_STARTING ? (enum library_stage)stage
                                           : LIBRARY_STAGE_NONE;
}

enum context_failure failure_page_context_failure(const struct failure_page *page)
{
    uint32_t failure = page->shared == NULL
            ? CONTEXT_FAILURE_NONE
            : atomic_load_explicit(&page->shared->failure, memory_order_relaxed);

    return failure <= CONTEXT_FAILURE_TOLD ? (enum context_failure)failure
                                           : CONTEXT_FAILURE_NONE;
}

void failure_page_awaited(
        const struct failure_page *page, char text[FAILURE_PAGE_AWAITED_MAX])
{
    (void)snprintf(text, FAILURE_PAGE_AWAITED_MAX, "%.*s", FAILURE_PAGE_AWAITED_MAX - 1,
            page->shared == NULL ? "" : page->shared->awaited);
}

void failure_page_destroy(struct failure_page *page)
{
    if (page->shared != NULL) {
        (void)munmap(page->shared, PAGE_BYTES);
        (void)close(page->fd);
    }
    *page = (struct failure_page){ .shared = NULL };
}

/* Maps a descriptor if it is such a page; NULL when it is not. */
static struct shared_page *map_page(int fd)
{
    struct stat about;
    struct shared_page *shared;

    if (fstat(fd, &about) != 0 || about.st_size != PAGE_BYTES) {
        return NULL;
    }
    shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) {
        return NULL;
    }
    if (shared->magic != PAGE_MAGIC) {
        (void)munmap(shared, PAGE_BYTES);
        return NULL;
    }
    return shared;
}

void failure_page_open(struct failure_page *page, const char *text)
{
    int64_t number;

    *page = (struct failure_page){ .shared = NULL };
    if (text != NULL && text_to_int64(text, &number) && number >= 0 &&
            number <= PAGE_FD_MAX) {
        page->shared = map_page((int)number);
        page->fd = (int)number;
    }
    if (page->shared != NULL &&
            atomic_load_explicit(&page->shared->contexts, memory_order_relaxed) == 0) {
        page->shared->awaited[0] = '\0';
        atomic_store_explicit(
                &page->shared->failure, CONTEXT_FAILURE_NONE, memory_order_relaxed);
    }
}

/* Library: tells how far it has come. */
static void tell(const struct failure_page *page, enum library_stage stage)
{
    atomic_store_explicit(&page->shared->stage, stage, memory_order_relaxed);
}

void failure_page_start(struct failure_page *page)
{
    if (page->shared != NULL) {
        tell(page, LIBRARY_STAGE_STARTING);
    }
}

void failure_page_started(struct failure_page *page)
{
    if (page->shared != NULL) {
        tell(page, LIBRARY_STAGE_NONE);
    }
}

void failure_page_begin(struct failure_page *page)
{
    if (page->shared != NULL) {
        (void)atomic_fetch_add_explicit(
                &page->shared->contexts, 1, memory_order_relaxed);
        tell(page, LIBRARY_STAGE_RUNNING);
    }
}

void failure_page_end(struct failure_page *page)
{
    if (page->shared != NULL &&
            atomic_fetch_sub_explicit(
                    &page->shared->contexts, 1, memory_order_relaxed) == 1) {
        tell(page, LIBRARY_STAGE_FINALIZED);
    }
}

void failure_page_fail(struct failure_page *page, enum context_failure failure)
{
    uint32_t none = CONTEXT_FAILURE_NONE;

    if (page->shared != NULL) {
        (void)atomic_compare_exchange_strong_explicit(&page->shared->failure, &none,
                failure, memory_order_relaxed, memory_order_relaxed);
    }
}

void failure_page_await(struct failure_page *page, const char *ranks)
{
    if (page->shared != NULL &&
            failure_page_context_failure(page) == CONTEXT_FAILURE_NONE) {
        (void)snprintf(
                page->shared->awaited, sizeof page->shared->awaited, "%s", ranks);
    }
}

bool failure_page_is_posted(const struct failure_page *page)
{
    /* Pairs with the release of failure_page_post(). */
    return page->shared != NULL &&
            atomic_load_explicit(&page->shared->is_posted, memory_order_acquire) != 0;
}

void failure_page_read(
        const struct failure_page *page, int *rank, char text[FAILURE_PAGE_TEXT_MAX])
{
    *rank = page->shared->rank;
    (void)snprintf(text, FAILURE_PAGE_TEXT_MAX, "%.*s", FAILURE_PAGE_TEXT_MAX - 1,
            page->shared->text);
}

bool failure_page_suspicion(const struct failure_page *page, uint32_t *seen,
        char text[FAILURE_PAGE_SUSPICION_MAX])
{
    struct shared_page *shared = page->shared;
    uint32_t count;

    if (shared == NULL) {
        return false;
    }
    /* Pairs with the release of failure_page_suspect(). */
    count = atomic_load_explicit(&shared->suspicions, memory_order_acquire);
    if (count == *seen || count % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < FAILURE_PAGE_SUSPICION_MAX; i++) {
        text[i] = atomic_load_explicit(&shared->suspicion[i], memory_order_relaxed);
    }
    text[FAILURE_PAGE_SUSPICION_MAX - 1] = '\0';
    /* Pairs with the fence of failure_page_suspect(). */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&shared->suspicions, memory_order_relaxed) != count) {
        return false; /* it has changed meanwhile: the next look sees it whole */
    }
    *seen = count;
    return true;
}

void failure_page_close(struct failure_page *page)
{
    if (page->shared != NULL) {
        (void)munmap(page->shared, PAGE_BYTES);
    }
    *page = (struct failure_page){ .shared = NULL };
}

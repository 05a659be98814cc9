/*
 * The page of a rank and its supervisor: a sealed memfd.
 */
#include "base/notice.h"

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

/* Tells our page from whatever else a descriptor may be: "TUTTINOT". */
#define NOTICE_MAGIC UINT64_C(0x544f4e4954545554)

enum {
    NOTICE_BYTES = 4096,
    NOTICE_FD_MAX = 1 << 20 /* no process has more descriptors */
};

struct notice_page {
    uint64_t magic;
    _Atomic uint32_t stage; /* enum notice_stage; written by the library    */
    _Atomic uint32_t is_posted; /* 1: rank and text are there; by the supervisor */
    int32_t rank;
    char text[NOTICE_TEXT_MAX];
    _Atomic uint32_t contexts; /* that are alive; by the library */
    _Atomic uint32_t suspicions; /* that were written; odd: one is being written */
    _Atomic char suspicion[NOTICE_SUSPICION_MAX]; /* terminated; "": none */
    _Atomic uint32_t failure; /* enum notice_failure; by the library */
    char awaited[NOTICE_AWAITED_MAX]; /* the same; read when it has ended  */
};

static_assert(sizeof(struct notice_page) <= NOTICE_BYTES, "fits its page");

tutti_status notice_create(struct notice *notice)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    tutti_status status;
    void *page;
    /* Inherited over exec on purpose: the program finds it by its number. */
    int fd = memfd_create("tutti-notice", MFD_ALLOW_SEALING);

    if (fd < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "create the page of a rank");
    }
    if (ftruncate(fd, NOTICE_BYTES) != 0 || fcntl(fd, F_ADD_SEALS, seals) != 0) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "size the page of a rank");
        goto err_close;
    }
    page = mmap(NULL, NOTICE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        status = error_set_errno(TUTTI_ERR_SYSTEM, "map the page of a rank");
        goto err_close;
    }
    *notice = (struct notice){ .page = page, .fd = fd };
    notice->page->magic = NOTICE_MAGIC;
    return TUTTI_OK;

err_close:
    (void)close(fd);
    return status;
}

void notice_post(struct notice *notice, int rank, const char *text)
{
    struct notice_page *page = notice->page;

    if (page == NULL ||
            atomic_load_explicit(&page->is_posted, memory_order_relaxed) != 0) {
        return;
    }
    page->rank = rank;
    (void)snprintf(page->text, sizeof page->text, "%s", text);
    /* Pairs with the acquire of notice_is_posted(): rank and text are there. */
    atomic_store_explicit(&page->is_posted, 1, memory_order_release);
}

void notice_suspect(struct notice *notice, const char *text)
{
    struct notice_page *page = notice->page;
    char copy[NOTICE_SUSPICION_MAX] = "";
    uint32_t count;

    if (page == NULL) {
        return;
    }
    count = atomic_load_explicit(&page->suspicions, memory_order_relaxed);
    atomic_store_explicit(&page->suspicions, count + 1, memory_order_relaxed);
    /* Pairs with the fence of notice_suspicion(): who reads a letter sees the odd count. */
    atomic_thread_fence(memory_order_release);
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (size_t i = 0; i < sizeof copy; i++) {
        atomic_store_explicit(&page->suspicion[i], copy[i], memory_order_relaxed);
    }
    /* Pairs with the acquire of notice_suspicion(): the text is there. */
    atomic_store_explicit(&page->suspicions, count + 2, memory_order_release);
}

/* What the program wrote is not believed further than it makes sense. */
enum notice_stage notice_stage(const struct notice *notice)
{
    uint32_t stage = notice->page == NULL
            ? NOTICE_STAGE_NONE
            : atomic_load_explicit(&notice->page->stage, memory_order_relaxed);

    return stage <= NOTICE_STAGE_FINALIZED ? (enum notice_stage)stage
                                           : NOTICE_STAGE_NONE;
}

enum notice_failure notice_failure(const struct notice *notice)
{
    uint32_t failure = notice->page == NULL
            ? NOTICE_FAILURE_NONE
            : atomic_load_explicit(&notice->page->failure, memory_order_relaxed);

    return failure <= NOTICE_FAILURE_TOLD ? (enum notice_failure)failure
                                          : NOTICE_FAILURE_NONE;
}

void notice_awaited(const struct notice *notice, char text[NOTICE_AWAITED_MAX])
{
    (void)snprintf(text, NOTICE_AWAITED_MAX, "%.*s", NOTICE_AWAITED_MAX - 1,
            notice->page == NULL ? "" : notice->page->awaited);
}

void notice_destroy(struct notice *notice)
{
    if (notice->page != NULL) {
        (void)munmap(notice->page, NOTICE_BYTES);
        (void)close(notice->fd);
    }
    *notice = (struct notice){ .page = NULL };
}

/* Maps a descriptor if it is such a page; NULL when it is not. */
static struct notice_page *map_page(int fd)
{
    struct stat about;
    struct notice_page *page;

    if (fstat(fd, &about) != 0 || about.st_size != NOTICE_BYTES) {
        return NULL;
    }
    page = mmap(NULL, NOTICE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    if (page->magic != NOTICE_MAGIC) {
        (void)munmap(page, NOTICE_BYTES);
        return NULL;
    }
    return page;
}

void notice_open(struct notice *notice, const char *text)
{
    int64_t number;

    *notice = (struct notice){ .page = NULL };
    if (text != NULL && text_to_int64(text, &number) && number >= 0 &&
            number <= NOTICE_FD_MAX) {
        notice->page = map_page((int)number);
        notice->fd = (int)number;
    }
    if (notice->page != NULL &&
            atomic_load_explicit(&notice->page->contexts, memory_order_relaxed) == 0) {
        notice->page->awaited[0] = '\0';
        atomic_store_explicit(
                &notice->page->failure, NOTICE_FAILURE_NONE, memory_order_relaxed);
    }
}

/* Library: tells how far it has come. */
static void tell(const struct notice *notice, enum notice_stage stage)
{
    atomic_store_explicit(&notice->page->stage, stage, memory_order_relaxed);
}

void notice_begin(struct notice *notice)
{
    if (notice->page != NULL) {
        (void)atomic_fetch_add_explicit(
                &notice->page->contexts, 1, memory_order_relaxed);
        tell(notice, NOTICE_STAGE_RUNNING);
    }
}

void notice_end(struct notice *notice)
{
    if (notice->page != NULL &&
            atomic_fetch_sub_explicit(
                    &notice->page->contexts, 1, memory_order_relaxed) == 1) {
        tell(notice, NOTICE_STAGE_FINALIZED);
    }
}

void notice_fail(struct notice *notice, enum notice_failure failure)
{
    uint32_t none = NOTICE_FAILURE_NONE;

    if (notice->page != NULL) {
        (void)atomic_compare_exchange_strong_explicit(&notice->page->failure, &none,
                failure, memory_order_relaxed, memory_order_relaxed);
    }
}

void notice_await(struct notice *notice, const char *ranks)
{
    if (notice->page != NULL && notice_failure(notice) == NOTICE_FAILURE_NONE) {
        (void)snprintf(
                notice->page->awaited, sizeof notice->page->awaited, "%s", ranks);
    }
}

bool notice_is_posted(const struct notice *notice)
{
    /* Pairs with the release of notice_post(). */
    return notice->page != NULL &&
            atomic_load_explicit(&notice->page->is_posted, memory_order_acquire) != 0;
}

void notice_read(const struct notice *notice, int *rank, char text[NOTICE_TEXT_MAX])
{
    *rank = notice->page->rank;
    (void)snprintf(
            text, NOTICE_TEXT_MAX, "%.*s", NOTICE_TEXT_MAX - 1, notice->page->text);
}

bool notice_suspicion(
        const struct notice *notice, uint32_t *seen, char text[NOTICE_SUSPICION_MAX])
{
    struct notice_page *page = notice->page;
    uint32_t count;

    if (page == NULL) {
        return false;
    }
    /* Pairs with the release of notice_suspect(). */
    count = atomic_load_explicit(&page->suspicions, memory_order_acquire);
    if (count == *seen || count % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < NOTICE_SUSPICION_MAX; i++) {
        text[i] = atomic_load_explicit(&page->suspicion[i], memory_order_relaxed);
    }
    text[NOTICE_SUSPICION_MAX - 1] = '\0';
    /* Pairs with the fence of notice_suspect(). */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&page->suspicions, memory_order_relaxed) != count) {
        return false; /* it has changed meanwhile: the next look sees it whole */
    }
    *seen = count;
    return true;
}

void notice_close(struct notice *notice)
{
    if (notice->page != NULL) {
        (void)munmap(notice->page, NOTICE_BYTES);
    }
    *notice = (struct notice){ .page = NULL };
}

#include "launcher/exec/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "launcher/session/loop.h"

void generation_path(char *own, size_t capacity, const char *path, uint32_t generation)
{
    static const char *const endings[] = { ".json", ".json.gz", "/" };
    size_t len = strlen(path);
    size_t ending = 0;

    if (generation < 2 || path[0] == '\0') {
        (void)snprintf(own, capacity, "%s", path);
        return;
    }
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (text_ends_in(path, endings[i])) {
            ending = strlen(endings[i]);
        }
    }
    (void)snprintf(own, capacity, "%.*s.generation%u%s", (int)(len - ending), path,
            generation, path + len - ending);
}

static tutti_status make_folder(const char *path)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "cannot make the folder %s", path);
    }
    return TUTTI_OK;
}

/* Makes path and the folders it is in. */
static tutti_status make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL;
            slash = strchr(slash + 1, '/')) {
        tutti_status status;

        *slash = '\0';
        status = make_folder(path);
        *slash = '/';
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return make_folder(path);
}

tutti_status logs_make_folder(const char *parent, int rank, char *folder)
{
    if (snprintf(folder, PATH_MAX, "%s/rank.%d", parent, rank) >= PATH_MAX) {
        folder[0] = '\0';
        return error_set(TUTTI_ERR_INVALID, "the log folder's path is too long");
    }
    return make_folders(folder);
}

tutti_status log_file_open(struct log_file *log, const char *folder, const char *name)
{
    log->fd = -1;
    if (snprintf(log->path, sizeof log->path, "%s/%s", folder, name) >=
            (int)sizeof log->path) {
        log->path[0] = '\0';
        return error_set(TUTTI_ERR_INVALID, "the log folder's path is too long");
    }
    log->fd = open(log->path,
            O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
    return log->fd >= 0
            ? TUTTI_OK
            : error_set_errno(TUTTI_ERR_SYSTEM, "cannot open %s", log->path);
}

tutti_status log_file_write(struct log_file *log, const char *bytes, size_t len)
{
    while (log->fd >= 0 && len > 0) {
        ssize_t count = write(log->fd, bytes, len);

        if (count < 0 && errno != EINTR) {
            tutti_status status = error_set_errno(TUTTI_ERR_SYSTEM,
                    "what follows is not in %s, for it cannot be written", log->path);

            log_file_close(log);
            return status;
        }
        bytes += count < 0 ? 0 : count;
        len -= count < 0 ? 0 : (size_t)count;
    }
    return TUTTI_OK;
}

void log_file_close(struct log_file *log)
{
    fd_close(&log->fd);
    log->fd = -1;
}

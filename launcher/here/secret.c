#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "launcher/arguments.h"
#include "launcher/here/here.h"
#include "launcher/session/loop.h"

enum {
    SECRET_MIN = 16, /* bytes; fewer can be tried one after another */
    ACCESS_BITS = 0777,
    OTHERS_BITS = 0077
};

static tutti_status take(
        struct join_place *place, const char *text, size_t len, const char *origin)
{
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) {
        len--;
    }
    if (len < SECRET_MIN || len > JOIN_SECRET_MAX) {
        return error_set(TUTTI_ERR_INVALID,
                "%s: the secret of hosts that join has %d to %d bytes, not %s%zu; make "
                "one with: openssl rand -hex 32",
                origin, SECRET_MIN, JOIN_SECRET_MAX,
                len > JOIN_SECRET_MAX ? "at least " : "", len);
    }
    memcpy(place->secret, text, len);
    place->secret_len = len;
    return TUTTI_OK;
}

/* Who else can read it could join, and who can write it be joined. */
static tutti_status check_file(int fd, const char *path)
{
    struct stat facts;

    if (fstat(fd, &facts) != 0) {
        return error_set_errno(TUTTI_ERR_INVALID, "--join-secret-file %s", path);
    }
    if (facts.st_uid != geteuid() && facts.st_uid != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "--join-secret-file %s: it belongs to another user, %u, who can read "
                "it",
                path, facts.st_uid);
    }
    if ((facts.st_mode & OTHERS_BITS) != 0) {
        return error_set(TUTTI_ERR_INVALID,
                "--join-secret-file %s: others than its owner may read or write it "
                "(mode %03o); chmod 600 it, and if they could read it before, make a "
                "new one",
                path, facts.st_mode & ACCESS_BITS);
    }
    return TUTTI_OK;
}

/* Up to a byte more than a secret may have. */
static tutti_status read_file(int fd, const char *path, char *text, size_t *len)
{
    ssize_t got = 1;

    *len = 0;
    while (got > 0 && *len < JOIN_SECRET_MAX + 1) {
        got = read(fd, text + *len, JOIN_SECRET_MAX + 1 - *len);
        *len += got > 0 ? (size_t)got : 0;
    }
    return got >= 0 ? TUTTI_OK
                    : error_set_errno(TUTTI_ERR_INVALID, "--join-secret-file %s", path);
}

static tutti_status take_file(struct join_place *place, const char *path)
{
    char text[JOIN_SECRET_MAX + 1];
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    tutti_status status = fd < 0
            ? error_set_errno(TUTTI_ERR_INVALID, "--join-secret-file %s", path)
            : check_file(fd, path);

    if (status == TUTTI_OK) {
        status = read_file(fd, path, text, &len);
    }
    if (status == TUTTI_OK) {
        status = take(place, text, len, path);
    }
    fd_close(&fd);
    return status;
}

tutti_status join_secret_read(const struct options *options, char *const *environment,
        struct join_place *place)
{
    const char *text = environment_get(environment, JOIN_SECRET_VARIABLE);

    if (options->join_secret_file != NULL) {
        return take_file(place, options->join_secret_file);
    }
    if (text != NULL) {
        return take(place, text, strlen(text), JOIN_SECRET_VARIABLE);
    }
    if (!options->join_trusted_network) {
        return error_set(TUTTI_ERR_INVALID,
                "without a secret anybody on the network could be a host of the job: "
                "give "
                "all hosts one file with --join-secret-file, or "
                "one " JOIN_SECRET_VARIABLE
                ", or say --join-trusted-network if nobody else is on it");
    }
    return TUTTI_OK;
}

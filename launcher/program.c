#include "launcher/program.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

static bool is_executable(const char *file)
{
    struct stat facts;

    return stat(file, &facts) == 0 && S_ISREG(facts.st_mode) && access(file, X_OK) == 0;
}

static tutti_status explain(const char *file)
{
    struct stat facts;

    if (stat(file, &facts) != 0) {
        return error_set_errno(TUTTI_ERR_INVALID, "cannot run %s", file);
    }
    if (S_ISDIR(facts.st_mode)) {
        return error_set(TUTTI_ERR_INVALID, "cannot run %s: it is a directory", file);
    }
    return error_set(TUTTI_ERR_INVALID, "cannot run %s: it is not executable", file);
}

static tutti_status refuse_unfound(const char *name)
{
    struct stat facts;

    if (is_executable(name)) {
        return error_set(TUTTI_ERR_INVALID,
                "cannot run %s: it is not in PATH; did you mean ./%s?", name, name);
    }
    if (stat(name, &facts) == 0 && S_ISDIR(facts.st_mode)) {
        return error_set(TUTTI_ERR_INVALID,
                "cannot run %s: it is a directory, and not in PATH", name);
    }
    return error_set(TUTTI_ERR_INVALID, "cannot run %s: it is not in PATH", name);
}

tutti_status program_find(
        const char *name, const char *path, char *file, size_t capacity)
{
    if (strlen(name) >= capacity) {
        return error_set(
                TUTTI_ERR_INVALID, "cannot run %s: its name is too long", name);
    }
    if (strchr(name, '/') != NULL) {
        (void)snprintf(file, capacity, "%s", name);
        return is_executable(file) ? TUTTI_OK : explain(file);
    }
    while (path != NULL && name[0] != '\0') {
        size_t len = strcspn(path, ":");
        /* An empty entry of PATH is the current directory. */
        int need = snprintf(file, capacity, "%.*s%s%s", (int)len, path,
                len == 0 ? "./" : "/", name);

        if (need > 0 && (size_t)need < capacity && is_executable(file)) {
            return TUTTI_OK;
        }
        path = path[len] == ':' ? path + len + 1 : NULL;
    }
    return refuse_unfound(name);
}

/* The interpreter in the first line of a script; "": it is none. */
static void read_interpreter(const char *file, char *text, size_t capacity)
{
    FILE *script = fopen(file, "re");
    char mark[2];

    text[0] = '\0';
    if (script == NULL) {
        return;
    }
    if (fread(mark, 1, sizeof mark, script) == sizeof mark && mark[0] == '#' &&
            mark[1] == '!' && fgets(text, (int)capacity, script) != NULL) {
        const size_t start = strspn(text, " \t");
        const size_t len = strcspn(text + start, " \t\n");

        memmove(text, text + start, len);
        text[len] = '\0';
    }
    (void)fclose(script);
}

tutti_status program_refused(const char *name)
{
    char interpreter[PATH_MAX];
    const int reason = errno;

    interpreter[0] = '\0';
    if (reason == ENOENT && is_executable(name)) {
        read_interpreter(name, interpreter, sizeof interpreter);
        if (interpreter[0] == '\0') {
            return error_set(TUTTI_ERR_SYSTEM,
                    "cannot run %s: the loader that it names is missing (ldd shows it)",
                    name);
        }
        if (interpreter[strlen(interpreter) - 1] == '\r') {
            return error_set(TUTTI_ERR_SYSTEM,
                    "cannot run %s: its lines end as on Windows, so that its "
                    "interpreter is not found; dos2unix mends it",
                    name);
        }
        return error_set(TUTTI_ERR_SYSTEM,
                "cannot run %s: its interpreter %s is missing", name, interpreter);
    }
    errno = reason;
    return error_set_errno(TUTTI_ERR_SYSTEM, "cannot run %s", name);
}

tutti_status program_self(char *file, size_t capacity)
{
    ssize_t len = readlink("/proc/self/exe", file, capacity - 1);

    if (len < 0) {
        return error_set_errno(TUTTI_ERR_SYSTEM, "read /proc/self/exe");
    }
    file[len] = '\0';
    return TUTTI_OK;
}

tutti_status program_beside(const char *name, char *file, size_t capacity)
{
    tutti_status status = program_self(file, capacity);
    char *slash = status == TUTTI_OK ? strrchr(file, '/') : NULL;

    if (slash == NULL) {
        return status;
    }
    if ((size_t)(slash + 1 - file) + strlen(name) >= capacity) {
        return error_set(
                TUTTI_ERR_INVALID, "cannot run %s: its name is too long", name);
    }
    (void)snprintf(slash + 1, capacity - (size_t)(slash + 1 - file), "%s", name);
    return TUTTI_OK;
}

/*
 * tutti-pages FILE: copies a page to stdout. Between a line with "tutti-pages: NAME" and one with
 * "tutti-pages: end" stands the table NAME, as the sources have it now. Run by the build and by
 * script/gendocs; not installed.
 */
#include "tools/pages/pages.h"

#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

enum {
    LINE_BYTES = 4096 /* a longer line is copied in parts */
};

static const char mark[] = "tutti-pages: ";
static const char version[] = "@VERSION@";

static const struct {
    const char *name;
    void (*print)(void);
} tables[] = {
    { "options", pages_manual_options },
    { "parameters", pages_manual_parameters },
    { "completion", pages_completion },
    { "flags", pages_flags },
    { "horovodrun", pages_horovodrun },
    { "keys", pages_keys },
    { "configuration", pages_configuration },
    { "variables", pages_variables },
    { "metrics", pages_metrics },
};

/* With blank lines around it in Markdown. False: there is no such table. */
static bool print_table(const char *name, const char *blank)
{
    const size_t len = strcspn(name, " \n");

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (strlen(tables[i].name) == len && strncmp(tables[i].name, name, len) == 0) {
            (void)fputs(blank, stdout);
            tables[i].print();
            (void)fputs(blank, stdout);
            return true;
        }
    }
    (void)fprintf(stderr, "tutti-pages: there is no table \"%.*s\"\n", (int)len, name);
    return false;
}

static void print_line(const char *line)
{
    const char *found = strstr(line, version);

    if (found == NULL) {
        (void)fputs(line, stdout);
    } else {
        (void)printf("%.*s%s%s", (int)(found - line), line, tutti_version(),
                found + strlen(version));
    }
}

static bool copy_page(FILE *page)
{
    char line[LINE_BYTES];
    bool is_in_table = false;
    bool ok = true;

    while (ok && fgets(line, sizeof line, page) != NULL) {
        const char *found = strstr(line, mark);
        const char *name = found == NULL ? NULL : found + strlen(mark);

        is_in_table = is_in_table && (name == NULL || strncmp(name, "end", 3) != 0);
        if (is_in_table) {
            continue;
        }
        print_line(line);
        is_in_table = name != NULL && strncmp(name, "end", 3) != 0;
        ok = !is_in_table ||
                print_table(name, strstr(line, "<!--") != NULL ? "\n" : "");
    }
    return ok && !is_in_table;
}

int main(int argc, char **argv)
{
    FILE *page = argc == 2 ? fopen(argv[1], "re") : NULL;
    bool ok;

    if (page == NULL) {
        (void)fprintf(stderr, "usage: tutti-pages FILE\n");
        return 2;
    }
    ok = copy_page(page);
    (void)fclose(page);
    return ok && fflush(stdout) == 0 ? 0 : 1;
}

/*
 * What completion.bash reads: the flags, and what each of them takes.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/flags.h"
#include "tools/pages/pages.h"

/* What follows a flag: words to choose from, or the kind of thing. */
static void print_kind(const struct flag *flag)
{
    static const char *const files[] = { "FILE", "DIR", "PATH" };

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strstr(flag->argument, files[i]) != NULL) {
            (void)printf("REPLY=@file ;;\n");
            return;
        }
    }
    (void)printf(flag->kind == FLAG_HOSTS ? "REPLY=@host ;;\n" : "REPLY=@any ;;\n");
}

/* "a|b" as "a b". */
static void print_choices(const char *choices)
{
    (void)printf("REPLY='");
    for (; *choices != '\0'; choices++) {
        (void)putchar(*choices == '|' ? ' ' : *choices);
    }
    (void)printf("' ;;\n");
}

static void print_flag_case(const struct flag *flag)
{
    char name[FLAG_NAME_LIMIT];

    if (flag->argument == NULL) {
        return;
    }
    (void)printf("    --%s", flag_spell(flag, name));
    if (flag->alias != NULL) {
        (void)printf(" | --%s", flag->alias);
    }
    if (flag->letter != '\0') {
        (void)printf(" | -%c", flag->letter);
    }
    (void)printf(") %s",
            flag->absent != NULL && flag->kind != FLAG_PARAMETER ? "follows=1 " : "");
    if (flag->choices != NULL) {
        print_choices(flag->choices);
    } else {
        print_kind(flag);
    }
}

static bool is_completed(const struct flag *flag)
{
    return flag_is_ours(flag) || flag->kind == FLAG_PARAMETER;
}

void pages_completion(void)
{
    size_t count;
    const struct flag *rows = flag_rows(&count);
    char name[FLAG_NAME_LIMIT];

    (void)printf("_tuttirun_flags='");
    for (size_t i = 0; i < count; i++) {
        if (is_completed(&rows[i])) {
            (void)printf(" --%s", flag_spell(&rows[i], name));
        }
    }
    (void)printf(
            "'\n"
            "\n"
            "# Sets REPLY to what a flag takes; false when the next word is not it.\n"
            "_tuttirun_takes()\n"
            "{\n"
            "    local flag=${1//_/-} follows=0\n"
            "    [[ $flag == -[a-zA-Z]?* ]] && flag=-$flag\n"
            "    REPLY=''\n"
            "    case $flag in\n");
    for (size_t i = 0; i < count; i++) {
        if (is_completed(&rows[i])) {
            print_flag_case(&rows[i]);
        }
    }
    (void)printf("    esac\n"
                 "    [[ -n $REPLY && $follows == 0 ]]\n"
                 "}\n");
}

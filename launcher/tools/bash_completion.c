/*
 * Completion of tuttirun's command line by bash: two tables from ours, and a function
 * that reads them.
 */
#include <stdio.h>
#include <string.h>

#include "launcher/flags.h"
#include "launcher/tools/pages.h"

static const char body[] =
        "_tuttirun()\n"
        "{\n"
        "    local line=${COMP_LINE:0:COMP_POINT} cur=${COMP_WORDS[COMP_CWORD]}\n"
        "    local word flag=\"\" REPLY=\"\" prefix=\"\" i\n"
        "    local -a words\n"
        "    COMPREPLY=()\n"
        "    [[ $cur == [=:]* ]] && cur=\"\" # behind these bash begins anew\n"
        "    # Not COMP_WORDS, which is split at = and : as well.\n"
        "    read -ra words <<<\"$line\"\n"
        "    [[ $line == *[[:space:]] ]] && words+=(\"\")\n"
        "    word=${words[${#words[@]} - 1]}\n"
        "    for ((i = 1; i < ${#words[@]} - 1; i++)); do\n"
        "        REPLY=\"\" flag=${words[i]}\n"
        "        case $flag in\n"
        "        --) i=$((i + 1)) && break ;;\n"
        "        -?*=*) ;;\n"
        "        -?*) _tuttirun_takes \"$flag\" && i=$((i + 1)) ;;\n"
        "        *) break ;;\n"
        "        esac\n"
        "    done\n"
        "    if ((i < ${#words[@]} - 1)); then\n"
        "        _tuttirun_files \"$word\" \"$cur\" # arguments of the program\n"
        "    elif ((i > ${#words[@]} - 1)) && [[ $flag != -- ]]; then\n"
        "        _tuttirun_value \"$word\" \"$cur\"\n"
        "    elif [[ $flag == --help || $flag == -h ]]; then\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"parameters all "
        "$_tuttirun_flags\" -- \"$word\")\n"
        "    elif [[ $word == -*=* && $flag != -- ]]; then\n"
        "        _tuttirun_takes \"${word%%=*}\"\n"
        "        [[ $cur == -*=* ]] && prefix=${word%%=*}=\n"
        "        _tuttirun_value \"${word#*=}\" \"${cur#\"$prefix\"}\" \"$prefix\"\n"
        "    elif [[ $word == -* && $flag != -- ]]; then\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"$_tuttirun_flags\" -- "
        "\"$word\")\n"
        "    else\n"
        "        mapfile -t COMPREPLY < <(compgen -c -- \"$word\" | sort -u)\n"
        "        ((${#COMPREPLY[@]} > 0)) || _tuttirun_files \"$word\" \"$cur\"\n"
        "    fi\n"
        "}\n"
        "\n"
        "# _tuttirun_value WORD CUR [PREFIX]: values of the flag that $REPLY is of\n"
        "_tuttirun_value()\n"
        "{\n"
        "    case $REPLY in\n"
        "    @file) _tuttirun_files \"$@\" ;;\n"
        "    @host) mapfile -t COMPREPLY < <(compgen -A hostname -- \"$1\") ;;\n"
        "    @any | '') ;;\n"
        "    *) mapfile -t COMPREPLY < <(compgen -P \"${3:-}\" -W \"$REPLY\" -- "
        "\"$1\") ;;\n"
        "    esac\n"
        "}\n"
        "\n"
        "# _tuttirun_files WORD CUR [PREFIX]: files, without what bash holds to be "
        "words "
        "before\n"
        "_tuttirun_files()\n"
        "{\n"
        "    local before=\"\" i\n"
        "    [[ $1 == *\"$2\" ]] && before=${1%\"$2\"}\n"
        "    mapfile -t COMPREPLY < <(compgen -f -- \"$1\")\n"
        "    for i in \"${!COMPREPLY[@]}\"; do\n"
        "        COMPREPLY[i]=${3:-}${COMPREPLY[i]#\"$before\"}\n"
        "    done\n"
        "    compopt -o filenames 2>/dev/null || true\n"
        "}\n"
        "\n"
        "complete -F _tuttirun tuttirun\n";

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
    (void)printf(") %s", flag->absent != NULL ? "follows=1 " : "");
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

    (void)printf(
            "# Completion of tuttirun for bash, made from the tables of flags when "
            "tutti is built.\n"
            "# shellcheck shell=bash\n"
            "\n"
            "_tuttirun_flags='");
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
                 "}\n"
                 "\n");
    (void)fputs(body, stdout);
}

/*
 * The flags of tuttirun and of horovodrun, and the parameters of the library, as one list:
 * made from flags.def and base/config.def.
 */
#ifndef TUTTI_LAUNCHER_FLAGS_H
#define TUTTI_LAUNCHER_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "base/config.h"

enum {
    FLAG_NAME_LIMIT = 64, /* bytes of a flag's name with its terminating zero */
    FLAG_SENTENCE_MAX = 512 /* bytes of flag_sentence() with its terminating zero */
};

/** What is done with a value; the names are those of flags.def. */
enum flag_kind {
    FLAG_GROUP, /* no flag: a heading of --help */
    FLAG_SWITCH,
    FLAG_ON_OFF,
    FLAG_CHOICE,
    FLAG_INT,
    FLAG_SECONDS,
    FLAG_SIZE,
    FLAG_TEXT,
    FLAG_WORDS,
    FLAG_HOSTS,
    FLAG_HOSTFILE,
    FLAG_EXPORT,
    FLAG_TIMESTAMPS,
    FLAG_PARAMETER, /* of the library */
    /* Flags of horovodrun. */
    FLAG_SAME,
    FLAG_IS,
    FLAG_NOTHING,
    FLAG_IGNORED,
    FLAG_REFUSED
};

struct flag {
    const char *name; /* "dry_run": --dry-run, and -dry-run as mpirun has it */
    const char *alias; /* another name, or NULL                               */
    const char *argument; /* what follows, "N"; NULL: nothing                    */
    const char *choices; /* its values, "auto|none|mpi"; NULL: free             */
    const char *initial; /* its default; NULL: none                             */
    const char *help; /* one sentence; FLAG_GROUP: the heading               */
    const char *absent; /* the value when the argument is missing; NULL: it may
                           not be. Else: --name, --name=value, or --name and one
                           of choices                                          */
    const char *expects; /* for errors: before a range, or a sentence           */
    bool (*check)(const char *value); /* false: refused; NULL: all but ""    */
    double min, max;
    size_t offset; /* of the value in struct options or config            */
    enum flag_kind kind;
    char letter; /* -n, or 0                                            */
    bool is_hosts; /* says which hosts there are, of which one only can   */
    bool not_in_file; /* for the command line only                           */
    bool is_same; /* a parameter that is equal on all ranks              */

    const char *horovod; /* not NULL: horovodrun has it too; a note, or ""      */
    const char *key; /* in its file, "params.cache_capacity", or NULL       */
    const char *off; /* the flag that "key: false" stands for; NULL: none   */
    const char *to; /* FLAG_IS: "--fusion-bytes %", % being the value      */
    /* Puts a value of horovodrun as ours; false: it is malformed. NULL: as it is. */
    bool (*convert)(const char *value, char *text, size_t capacity);
};

/** All rows: parameters first, then flags.def in its order; *count is set. */
const struct flag *flag_rows(size_t *count);
/** True for flags of tuttirun itself: neither parameters nor horovodrun's, nor headings. */
bool flag_is_ours(const struct flag *flag);
/** True for horovodrun's flags that are neither flags nor parameters of ours. */
bool flag_is_horovod(const struct flag *flag);

/** The flag of a name, without dashes; '-' and '_' are equal. NULL: there is none. */
const struct flag *flag_find(const char *name);
/** The same among flags of ours and parameters only. */
const struct flag *flag_find_ours(const char *name);
const struct flag *flag_of_letter(char letter);
/** The flag of a key of horovodrun's file, "autotune.enabled", or NULL. */
const struct flag *flag_of_key(const char *key);
/** The flag of ours, or the parameter, whose name is nearest; NULL when none is near. */
const struct flag *flag_nearest(const char *name);

/** Its name as it is typed, "dry-run". Returns text. */
const char *flag_spell(const struct flag *flag, char text[FLAG_NAME_LIMIT]);
/** Its help with choices and default. Returns text. */
const char *flag_sentence(const struct flag *flag, char text[FLAG_SENTENCE_MAX]);

/**
 * Writes the help, made from the tables.
 * @param topic  "": all flags of tuttirun; "parameters": those of the library; "all";
 *               or the name of a flag, with or without dashes
 * @return TUTTI_OK, TUTTI_ERR_INVALID (there is no such topic; nothing is written)
 */
TUTTI_MUST_USE tutti_status help_print(FILE *file, const char *topic);

/** Writes the version, and what tutti was built with. */
void help_print_build(FILE *file);

#endif

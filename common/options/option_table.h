/*
 * option_table: options as tables, for every program of mqkv. A row says an option's name, its
 * kind, where its value goes and what help says about it, so that parsing, error messages, help and
 * completion agree.
 *
 * Accepted: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, several flags in one word (-vV), and a
 * long name cut short where one option alone begins so (unless its set says no). The value of an
 * option must not begin with "--" unless it is glued to it.
 */
#ifndef MQKV_COMMON_OPTIONS_OPTION_TABLE_H
#define MQKV_COMMON_OPTIONS_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/text/parse.h"
#include "mqkv/error.h"

enum option_kind {
    OPTION_FLAG,        /* bool, set to true */
    OPTION_STOP,        /* the same; option_take_argv takes no option behind it (--help) */
    OPTION_NUMBER,      /* an unsigned integer of any width, min..max */
    OPTION_INTEGER,     /* int64_t */
    OPTION_SIZE,        /* an unsigned integer of any width, bytes, min..max */
    OPTION_DURATION_MS, /* an unsigned integer of any width, min..max */
    OPTION_FRACTION,    /* double, min..max */
    OPTION_TEXT,        /* const char *, borrowed from the words; at least min bytes */
    OPTION_CHOICE,      /* an enum, int or bool: the index of the name in choice_name */
    OPTION_PARSED       /* a field that `parse` fills */
};

/* A table ends with a row without name. */
struct option_row {
    const char *name;
    char letter; /* 0: none */
    enum option_kind kind;
    const char *argument; /* as help shows it; NULL: the option takes none */
    const char *help;
    size_t offset, bytes; /* of the field in the target: OPTION_FIELD */
    uint64_t min, max;
    parse_name_of *choice_name;
    bool (*parse)(const char *text, void *field);
    /* Which values are right, for error messages: "a group's name or number". NULL: that follows
     * from the kind. */
    const char *expects;
    /* Returns advice about a wrong value, as the end of a sentence, or "". NULL: there is none. */
    const char *(*advise)(const char *text);
    /* The section of a configuration file (option_file.h) that the option belongs to; NULL: only
     * the command line has it. */
    const char *section;
    unsigned page; /* of the help, where that has several: 0 is the first */
};

#define OPTION_FIELD(type, member) \
    .offset = offsetof(type, member), .bytes = sizeof(((type *)NULL)->member)

/* Says where the value of an option comes from. */
struct option_origin {
    const char
        *text; /* as it was given, borrowed; "on" of a flag; NULL: the option was not given */
    const char *file; /* NULL: the command line */
    unsigned line;    /* in the file, from 1 */
    bool is_set;      /* the owner set the option while the program ran */
    const char *by;   /* the option that stands for this one, too, which was not given; or NULL */
};

/* A table and the struct that its values go to. Where several sets are given, the last has rows
 * NULL, and the first that knows an option takes it. */
struct option_set {
    const struct option_row *rows;
    void *target;
    struct option_origin *origins; /* one per row, noted as values are taken; or NULL */
    bool whole_names;              /* on a command line no name is cut short */
    bool with_units; /* there a duration has a unit, unless its argument is shown as "MS", or 0 */
};

/* Returns true if `word` looks like an option: a dash and a letter, or two dashes. "-" and negative
 * numbers do not. */
bool option_looks_so(const char *word);

/* Returns true if one of the sets has the option that `word` names by its letter or its whole
 * name. */
bool option_is_known(const struct option_set *sets, const char *word);

/* Takes `word`, which looks like an option, and `next`, the word after it (NULL: none), as its
 * value if it needs one: then *took_next is true. `hint` says where options are explained, as the
 * end of a sentence about an unknown option. KV_OK; KV_USAGE with a sentence in `error`. */
enum kv_status option_take(const struct option_set *sets, const char *hint, const char *word,
                           const char *next, bool *took_next, struct kv_error *error);

/* Takes the options out of argv[1..*argc-1], wherever they stand; the operands move up, and *argc
 * counts the words that are left. "--" ends the options. KV_OK; KV_USAGE with a sentence in
 * `error`. */
enum kv_status option_take_argv(const struct option_set *sets, const char *hint, int *argc,
                                char **argv, struct kv_error *error);

/* Takes the value of `row`, a row of `set`, from the text of `origin`. A flag's text is "on" or
 * "off" ("yes", "true", "1"; "no", "false", "0"). KV_OK; KV_USAGE with a sentence that begins with
 * the name of the option. */
enum kv_status option_take_text(const struct option_set *set, const struct option_row *row,
                                const struct option_origin *origin, struct kv_error *error);

/* Prints " -x, --name ARGUMENT help" for each row, with `columns` for the part before the help; a
 * longer part has a line of its own. Prints nothing for an empty or NULL table. */
void option_print_help(FILE *stream, const struct option_row *rows, int columns);

/* Some rows of a table, as help shows them. */
struct option_heading {
    const char *title;
    const char *section; /* NULL: the rows that only the command line has */
    unsigned page;
};

/* Prints the title of `heading` between two line ends, and below it its rows as option_print_help
 * does; nothing if there are none. */
void option_print_section(FILE *stream, const struct option_row *rows,
                          const struct option_heading *heading, int columns);

/* Prints "PROGRAM VERSION", and the sanitizer that it was built with. */
void option_print_version(FILE *stream, const char *program);

#endif

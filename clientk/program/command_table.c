/*
 * command_table: every command of clientk, with its options, help and function.
 */
#include "clientk/program/cli/command.h"

#include "tools/backup/backup_command.h"
#include "tools/backup/restore_command.h"
#include "clientk/program/commands/batch_command.h"
#include "tools/bench/bench.h"
#include "tools/bench/bench_options.h"
#include "tools/ops/compact_command.h"
#include "tools/ops/config_command.h"
#include "tools/ops/keys_command.h"
#include "tools/ops/sessions_command.h"
#include "tools/ops/slow_command.h"
#include "tools/ops/doctor.h"
#include "clientk/program/commands/clear_command.h"
#include "tools/transfer/dump_command.h"
#include "clientk/program/commands/key_command.h"
#include "tools/transfer/load_command.h"
#include "clientk/program/commands/lock_command.h"
#include "tools/transfer/migrate_command.h"
#include "clientk/program/cli/help.h"
#include "tools/prompt/interactive.h"
#include "tools/ops/metrics_command.h"
#include "tools/ops/ping.h"
#include "clientk/program/commands/priority.h"
#include "clientk/program/commands/queue_command.h"
#include "clientk/program/commands/range_command.h"
#include "clientk/program/commands/scan_command.h"
#include "clientk/program/commands/transact_block.h"
#include "clientk/program/commands/transact_command.h"
#include "clientk/program/commands/watch_command.h"
#include "tools/ops/stats.h"
#include "tools/ops/top.h"
#include "common/text/parse.h"

/* The options of the commands about one key, each named once. */
#define FIELD(name) OPTION_FIELD(struct key_command_options, name)
#define TTL_ROW                                                                                 \
    {                                                                                           \
        "ttl", 0, OPTION_DURATION_MS, "DURATION", "expire after this time: " DURATION_EXAMPLES, \
            FIELD(ttl_ms), .min = 1, .max = UINT64_MAX / 2, .advise = arguments_duration_advice \
    }
#define EXPIRES_AT_ROW                                                                        \
    {                                                                                         \
        "expires-at", 0, OPTION_NUMBER, "MS", "expire at this time: milliseconds since 1970", \
            FIELD(expires_at_ms), .min = 1, .max = UINT64_MAX                                 \
    }
#define IF_ABSENT_ROW                                                                         \
    {                                                                                         \
        "if-absent", 0, OPTION_FLAG, NULL, "only if the key does not exist", FIELD(if_absent) \
    }
#define IF_PRESENT_ROW                                                                  \
    {                                                                                   \
        "if-present", 0, OPTION_FLAG, NULL, "only if the key exists", FIELD(if_present) \
    }
#define IF_VERSION_ROW                                                                     \
    {                                                                                      \
        "if-version", 0, OPTION_NUMBER, "VERSION",                                         \
            "only if the entry has this version (get --meta shows it)", FIELD(if_version), \
            .min = 1, .max = UINT64_MAX                                                    \
    }
#define SYNC_ROW                                                                                   \
    {                                                                                              \
        "sync", 0, OPTION_CHOICE, "LEVEL",                                                         \
            "default (the server's), interval, or always: on disk before the answer", FIELD(sync), \
            .choice_name = key_command_sync_name                                                   \
    }
#define META_ROW                                                                     \
    {                                                                                \
        "meta", 'v', OPTION_FLAG, NULL, "show version, size and expiry", FIELD(meta) \
    }
#define KEEP_TTL_ROW                                                                               \
    {                                                                                              \
        "keep-ttl", 0, OPTION_FLAG, NULL, "keep the expiry of the replaced entry", FIELD(keep_ttl) \
    }
#define END_ROW      \
    {                \
        .name = NULL \
    }

static const struct option_row exists_rows[] = {META_ROW, END_ROW};
static const struct option_row get_rows[] = {
    META_ROW,
    {"together", 0, OPTION_FLAG, NULL, "read all keys, up to 128, at one moment", FIELD(together)},
    END_ROW};
static const struct option_row put_rows[] = {TTL_ROW,       EXPIRES_AT_ROW, KEEP_TTL_ROW,
                                             IF_ABSENT_ROW, IF_PRESENT_ROW, IF_VERSION_ROW,
                                             SYNC_ROW,      META_ROW,       END_ROW};
static const struct option_row write_rows[] = {SYNC_ROW, END_ROW};
static const struct option_row del_rows[] = {IF_VERSION_ROW,
                                             SYNC_ROW,
                                             {"prefix", 0, OPTION_TEXT, "PREFIX",
                                              "delete all keys with this prefix, instead of KEY",
                                              FIELD(prefix), .expects = "a prefix"},
                                             END_ROW};
static const struct option_row add_rows[] = {
    {"min", 0, OPTION_INTEGER, "N", "change nothing if the sum would be less", FIELD(min)},
    {"max", 0, OPTION_INTEGER, "N", "change nothing if the sum would be more", FIELD(max)},
    {"initial", 0, OPTION_INTEGER, "N",
     "the number to start from if the key does not exist (default 0)", FIELD(initial)},
    {"no-create", 0, OPTION_FLAG, NULL, "answer NOT FOUND if the key does not exist",
     FIELD(no_create)},
    TTL_ROW,
    SYNC_ROW,
    END_ROW,
};

static const struct key_command_kind get_kind = {CLIENTK_GET, SHAPE_KEY, ANSWER_VALUE};
static const struct key_command_kind put_kind = {CLIENTK_PUT, SHAPE_KEY_VALUE, ANSWER_OK};
static const struct key_command_kind del_kind = {CLIENTK_DELETE, SHAPE_KEY, ANSWER_OK};
static const struct key_command_kind exists_kind = {CLIENTK_EXISTS, SHAPE_KEY, ANSWER_OK};
static const struct key_command_kind ttl_kind = {CLIENTK_EXISTS, SHAPE_KEY, ANSWER_TTL};
static const struct key_command_kind touch_kind = {CLIENTK_TOUCH, SHAPE_KEY_DURATION, ANSWER_OK};
static const struct key_command_kind persist_kind = {CLIENTK_TOUCH, SHAPE_KEY, ANSWER_OK};
static const struct key_command_kind add_kind = {CLIENTK_ADD, SHAPE_KEY_DELTA, ANSWER_NUMBER};
static const struct key_command_kind incr_kind = {CLIENTK_ADD, SHAPE_KEY_INCREMENT, ANSWER_NUMBER};
static const struct key_command_kind decr_kind = {CLIENTK_ADD, SHAPE_KEY_DECREMENT, ANSWER_NUMBER};
static const struct key_command_kind append_kind = {CLIENTK_APPEND, SHAPE_KEY_VALUE, ANSWER_NUMBER};
static const struct key_command_kind getset_kind = {CLIENTK_EXCHANGE, SHAPE_KEY_VALUE,
                                                    ANSWER_OLD_VALUE};

#define ABOUT_A_KEY(kind)                                                  \
    .places = COMMAND_ANYWHERE, .operand = OPERAND_KEY, .key_kind = &kind, \
    .option_defaults = &key_command_option_defaults,                       \
    .option_bytes = sizeof(struct key_command_options)
#define SEVERAL_KEYS                                                                         \
    "Several keys have an answer each, in their order, as lines of a batch have; exit code " \
    "1: one\nwas not found."
#define RUNS(function, table, defaults) \
    .run = function, .options = table, .option_defaults = &defaults, .option_bytes = sizeof defaults

const struct command commands[] = {
    {.name = "put",
     .alias = "set",
     .arguments = "KEY VALUE...",
     .summary = "store a value",
     .details = "Several words are stored with one space between them. From the shell, the value - "
                "is what\nstandard input holds (a dash itself: put KEY -- -).",
     .min_operands = 2,
     .max_operands = COMMAND_ANY_NUMBER,
     .options = put_rows,
     ABOUT_A_KEY(put_kind)},
    {.name = "get",
     .arguments = "KEY...",
     .summary = "print the value of a key, or of several, a line each",
     .details = SEVERAL_KEYS,
     .min_operands = 1,
     .max_operands = COMMAND_ANY_NUMBER,
     .options = get_rows,
     .run = get_together_run,
     ABOUT_A_KEY(get_kind)},
    {.name = "del",
     .alias = "delete",
     .arguments = "KEY...",
     .summary = "delete keys, or with --prefix all that begin so",
     .details = SEVERAL_KEYS,
     .min_operands = 1,
     .max_operands = COMMAND_ANY_NUMBER,
     .options = del_rows,
     .run = delete_prefix_run,
     ABOUT_A_KEY(del_kind)},
    {.name = "exists",
     .arguments = "KEY...",
     .summary = "check whether keys exist",
     .details = SEVERAL_KEYS,
     .min_operands = 1,
     .max_operands = COMMAND_ANY_NUMBER,
     .options = exists_rows,
     ABOUT_A_KEY(exists_kind)},
    {.name = "add",
     .arguments = "KEY NUMBER",
     .summary = "add to a counter and print the sum",
     .details = "The value is a decimal number of 64 bits with a sign; a key that does not exist "
                "counts as 0.",
     .min_operands = 2,
     .max_operands = 2,
     .options = add_rows,
     ABOUT_A_KEY(add_kind)},
    {.name = "incr",
     .arguments = "KEY [BY]",
     .summary = "add 1 or BY to a counter",
     .min_operands = 1,
     .max_operands = 2,
     .options = add_rows,
     ABOUT_A_KEY(incr_kind)},
    {.name = "decr",
     .arguments = "KEY [BY]",
     .summary = "subtract 1 or BY from a counter",
     .min_operands = 1,
     .max_operands = 2,
     .options = add_rows,
     ABOUT_A_KEY(decr_kind)},
    {.name = "append",
     .arguments = "KEY VALUE...",
     .summary = "append to a value and print its new size in bytes",
     .min_operands = 2,
     .max_operands = COMMAND_ANY_NUMBER,
     .options = write_rows,
     ABOUT_A_KEY(append_kind)},
    {.name = "getset",
     .arguments = "KEY VALUE...",
     .summary = "store a value and print the old one",
     .details = "If there was no old value, the new one is stored and the answer is NOT FOUND.",
     .min_operands = 2,
     .max_operands = COMMAND_ANY_NUMBER,
     .options = put_rows,
     ABOUT_A_KEY(getset_kind)},
    {.name = "ttl",
     .arguments = "KEY",
     .summary = "how long until the key expires",
     .min_operands = 1,
     .max_operands = 1,
     ABOUT_A_KEY(ttl_kind)},
    {.name = "touch",
     .alias = "expire",
     .arguments = "KEY DURATION",
     .summary = "set when a key expires: " DURATION_EXAMPLES " from now",
     .min_operands = 2,
     .max_operands = 2,
     .options = write_rows,
     ABOUT_A_KEY(touch_kind)},
    {.name = "persist",
     .arguments = "KEY",
     .summary = "remove the expiry of a key",
     .min_operands = 1,
     .max_operands = 1,
     .options = write_rows,
     ABOUT_A_KEY(persist_kind)},
    {.name = "transact",
     .arguments = "[GUARD...] [-- STEP]... [--else STEP [-- STEP]...]",
     .summary = "change several keys together, or none",
     .details =
         "If all guards hold, the steps are done as one, else those behind --else. A step is put, "
         "get, del,\nexists, ttl, add, incr, decr, append, touch or persist, with options of its "
         "own; each has its\nanswer. Exit code 1: a guard did not hold, or a step was not "
         "possible: then nothing changed.\nExample: transact --if-absent order:1 -- add stock -1 "
         "--min 0 -- put order:1 Ada",
     .places = COMMAND_ANYWHERE,
     .take_words = transact_take_words,
     RUNS(transact_run, transact_option_rows, transact_option_defaults)},
    {.name = "begin",
     .arguments = "[GUARD...]",
     .summary = "begin a transaction: its steps follow, one a line",
     .details = "The steps are done as one at commit, or, if a guard does not hold, those behind a "
                "line else. abort\nends the block without doing anything. See transact.",
     .places = COMMAND_LINE,
     .max_operands = COMMAND_ANY_NUMBER,
     RUNS(transact_block_run, transact_option_rows, transact_option_defaults)},
    {.name = "else",
     .arguments = "",
     .summary = "what follows is done if a guard does not hold",
     .places = COMMAND_LINE,
     .run = transact_block_run},
    {.name = "commit",
     .arguments = "",
     .summary = "do the steps since begin as one",
     .places = COMMAND_LINE,
     .run = transact_block_run},
    {.name = "abort",
     .arguments = "",
     .summary = "forget the steps since begin",
     .places = COMMAND_LINE,
     .run = transact_block_run},
    {.name = "scan",
     .arguments = "[PREFIX]",
     .summary = "list entries, in no particular order, or a range of them in order",
     .details =
         "An entry that exists during the whole scan is listed exactly once. --from, --to, "
         "--prefix and\n--reverse list keys in the order of their bytes, from a server with "
         "--ordered. --match\nlooks at all keys that begin as the pattern does, and lists those "
         "that match.",
     .places = COMMAND_ANYWHERE,
     .max_operands = 1,
     .operand = OPERAND_KEY,
     RUNS(scan_run, scan_option_rows, scan_option_defaults)},
    {.name = "count",
     .arguments = "[PREFIX]",
     .summary = "count entries, all or those whose key begins with PREFIX",
     .details = "A server with --ordered looks at no others; --from and --to need one.",
     .places = COMMAND_ANYWHERE,
     .max_operands = 1,
     .operand = OPERAND_KEY,
     RUNS(count_run, count_option_rows, count_option_defaults)},
    {.name = "first",
     .arguments = "[PREFIX]",
     .summary = "print the entry with the first key, of a server with --ordered",
     .places = COMMAND_ANYWHERE,
     .max_operands = 1,
     .operand = OPERAND_KEY,
     RUNS(first_run, one_key_option_rows, one_key_option_defaults)},
    {.name = "last",
     .arguments = "[PREFIX]",
     .summary = "print the entry with the last key",
     .places = COMMAND_ANYWHERE,
     .max_operands = 1,
     .operand = OPERAND_KEY,
     RUNS(last_run, one_key_option_rows, one_key_option_defaults)},
    {.name = "next",
     .arguments = "KEY",
     .summary = "print the entry with the key that follows KEY, which need not exist",
     .places = COMMAND_ANYWHERE,
     .min_operands = 1,
     .max_operands = 1,
     .operand = OPERAND_KEY,
     RUNS(next_run, one_key_option_rows, one_key_option_defaults)},
    {.name = "previous",
     .arguments = "KEY",
     .summary = "print the entry with the key before KEY",
     .places = COMMAND_ANYWHERE,
     .min_operands = 1,
     .max_operands = 1,
     .operand = OPERAND_KEY,
     RUNS(previous_run, one_key_option_rows, one_key_option_defaults)},
    {.name = "clear",
     .arguments = "[PREFIX]",
     .summary = "delete all entries, or those whose key begins with PREFIX",
     .details = "Asks for confirmation on a terminal; elsewhere --yes is required. Entries that "
                "others store\nmeanwhile may remain.",
     .places = COMMAND_ANYWHERE,
     .max_operands = 1,
     .operand = OPERAND_KEY,
     RUNS(clear_run, clear_option_rows, clear_option_defaults)},
    {.name = "watch",
     .arguments = "[PREFIX [-- PROGRAM...]]",
     .summary = "print changes as they are made, or run a program for each",
     .details =
         "One line for each change: put KEY VALUE, delete KEY or expire KEY; or missed, if the "
         "server\ndid not keep all changes (serverk --keep-changes). Ctrl-C ends it; --since "
         "continues later.\nA program runs once a change, one after the other, with MQKV_CHANGE "
         "(put, delete, expire, missed),\nMQKV_KEY and MQKV_VERSION in its environment.",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     .max_operands = COMMAND_ANY_NUMBER,
     .operand = OPERAND_KEY,
     RUNS(watch_run, watch_option_rows, watch_option_defaults)},
    {.name = "lock",
     .arguments = "NAME -- PROGRAM...",
     .summary = "run a program while it holds a lock in the store",
     .details =
         "Waits for the lock, and renews its lease meanwhile. The exit code is the program's; "
         "1: another has\nthe lock (-n, --wait-for); 4: it was lost, and the program got "
         "SIGTERM. Python's Lock of the same\nname is the same lock.",
     .places = COMMAND_SHELL,
     .min_operands = 2,
     .max_operands = COMMAND_ANY_NUMBER,
     RUNS(lock_run, lock_option_rows, lock_option_defaults)},
    {.name = "queue",
     .arguments = "put|take|ack|fail|release|extend|peek|list|length|dead NAME ...",
     .summary = "put jobs into a queue, take and settle them",
     .details =
         "put NAME PAYLOAD... (- is stdin) prints the job's id; take NAME prints RECEIPT PAYLOAD, "
         "and with\n--format raw the payload's bytes, and the receipt on stderr. "
         "ack NAME RECEIPT..., fail, release\nand extend NAME RECEIPT settle it within its lease. "
         "peek, list NAME [ready|leased|later|dead],\nlength and dead show jobs, list alone shows "
         "the queues. Exit code 1: there is no job, or the lease is over.",
     .places = COMMAND_ANYWHERE,
     .min_operands = 1,
     .max_operands = COMMAND_ANY_NUMBER,
     .operand = OPERAND_QUEUE,
     RUNS(queue_run, queue_option_rows, queue_option_defaults)},
    {.name = "priority",
     .arguments = "[0..31]",
     .summary = "show or set the priority of the commands that follow",
     .details = "Higher is served first by a server with --sched priority or cost; others ignore "
                "it.\nAll threads of a batch have the same priority.",
     .places = COMMAND_LINE,
     .max_operands = 1,
     .run = priority_run},
    {.name = "sync",
     .arguments = "",
     .summary = "wait until everything written is on disk",
     .places = COMMAND_ANYWHERE,
     .run = sync_run},
    {.name = "ping",
     .arguments = "",
     .summary = "time empty round trips to the server",
     .places = COMMAND_ANYWHERE,
     RUNS(ping_run, ping_option_rows, ping_option_defaults)},
    {.name = "stats",
     .arguments = "[SECTION]",
     .summary = "the server's statistics",
     .details = "Prints tables; with --format json, the JSON that the server sent.",
     .places = COMMAND_ANYWHERE,
     .formats = FORMATS_BUT_CSV,
     .max_operands = 1,
     .operand = OPERAND_SECTION,
     .run = stats_run},
    {.name = "metrics",
     .arguments = "",
     .summary = "the server's statistics for Prometheus",
     .details = "Prints the text format of Prometheus; serverk --metrics FILE writes it to a file.",
     .places = COMMAND_SHELL,
     .formats = FORMATS_OF_TEXT,
     .run = metrics_run},
    {.name = "config",
     .arguments = "get [NAME] | set NAME VALUE | reload",
     .summary = "show or change the server's settings",
     .details = "For the server's own user and root. A change lasts until the server ends or reads "
                "its\nconfiguration again (SIGHUP), which reload makes it do; it fails if the file "
                "has a\nmistake, or something in it takes a restart.",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     .min_operands = 1,
     .max_operands = 3,
     .operand = OPERAND_SETTINGS,
     RUNS(config_run, config_option_rows, config_option_defaults)},
    {.name = "sessions",
     .arguments = "",
     .summary = "who is connected to the server",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     .run = sessions_run},
    {.name = "kill",
     .arguments = "SESSION...",
     .summary = "end sessions of the server",
     .details = "For the server's own user and root. A client that goes on opens another session.",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     .min_operands = 1,
     .max_operands = COMMAND_ANY_NUMBER,
     .run = kill_run},
    {.name = "slow",
     .arguments = "",
     .summary = "the server's latest slow requests",
     .details = "For the server's own user and root. serverk --slow TIME, or config set slow TIME, "
                "says\nwhich requests are slow.",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     RUNS(slow_run, slow_option_rows, slow_option_defaults)},
    {.name = "bigkeys",
     .arguments = "",
     .summary = "the keys with the largest values, of a sample of the store",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     RUNS(bigkeys_run, bigkeys_option_rows, bigkeys_option_defaults)},
    {.name = "hotkeys",
     .arguments = "",
     .summary = "the keys that the server is asked for most, for some seconds",
     .details = "For the server's own user and root. Reads without the server (--direct) are not "
                "seen.",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     RUNS(hotkeys_run, hotkeys_option_rows, hotkeys_option_defaults)},
    {.name = "compact",
     .arguments = "",
     .summary = "have the server compact its data files now",
     .details =
         "For the server's own user and root. Files in which nothing is dead are left alone.",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     RUNS(compact_run, compact_option_rows, compact_option_defaults)},
    {.name = "top",
     .arguments = "",
     .summary = "watch what the server does",
     .details = "Shows a page on a terminal, which h explains. In a pipe, and with --format json,\n"
                "prints one report an interval.",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     .formats = FORMATS_BUT_CSV,
     RUNS(top_run, top_option_rows, top_option_defaults)},
    {.name = "batch",
     .arguments = "FILE...",
     .summary = "execute files of commands; - is stdin",
     .details =
         "One command per line, as at the prompt; # begins a comment. Words with blanks or\n"
         "binary bytes need double quotes, with the escapes \\\\ \\\" \\n \\r \\t \\0 \\xHH. Each\n"
         "command has one answer, in the order of the lines: OK, the value, NOT FOUND, or\n"
         "ERROR. With -n N threads share the lines, which then run side by side. Each of\n"
         "several files has its own thread.",
     .places = COMMAND_SHELL,
     .min_operands = 1,
     .max_operands = COMMAND_ANY_NUMBER,
     RUNS(batch_run, batch_option_rows, batch_option_defaults)},
    {.name = "bench",
     .arguments = "",
     .summary = "measure throughput and latency under load",
     .places = COMMAND_SHELL,
     RUNS(bench_run, bench_option_rows, bench_option_defaults)},
    {.name = "dump",
     .arguments = "FILE",
     .summary = "write all entries as text; - is stdout",
     .details = "The file is a batch of PUT lines with a checksum at its end; load reads it back.",
     .places = COMMAND_SHELL,
     .formats = FORMATS_OF_TEXT,
     .min_operands = 1,
     .max_operands = 1,
     RUNS(dump_run, dump_option_rows, dump_option_defaults)},
    {.name = "load",
     .arguments = "FILE",
     .summary = "store the entries of a dump; - is stdin",
     .places = COMMAND_SHELL,
     .min_operands = 1,
     .max_operands = 1,
     RUNS(load_run, load_option_rows, load_option_defaults)},
    {.name = "migrate",
     .arguments = "--to NAME",
     .summary = "copy all entries to another serverk while clients keep running",
     .details =
         "NAME is the queue of the other one, which may have another engine. Copies, follows "
         "what clients\nchange, deletes what they delete, and compares both at the end. "
         "Expiry is kept, and versions are,\nunless the target is a cluster. Exit code 1: "
         "keys differ, or clients still write to the source.",
     .places = COMMAND_SHELL,
     RUNS(migrate_run, migrate_option_rows, migrate_option_defaults)},
    {.name = "backup",
     .arguments = "DIR",
     .summary = "copy the running store, as it is at one moment; - is stdout",
     .details = "DIR is then a store that serverk -f DIR starts from and kvcheck DIR verifies. "
                "Another backup into the\nsame DIR copies only what is new. On stdout it is a tar "
                "archive. restore brings it back.",
     .places = COMMAND_SHELL,
     .min_operands = 1,
     .max_operands = 1,
     RUNS(backup_run, backup_option_rows, backup_option_defaults)},
    {.name = "restore",
     .arguments = "[BACKUP]",
     .summary = "bring back the entries of a backup; - is stdin",
     .details = "BACKUP is a directory or an archive of backup. Entries keep versions and expiry; "
                "keys that exist\nare replaced (--if-absent leaves them), others stay.\n"
                "--from URL,... --bucket NAME --to DIR makes a store from a NATS cluster: the copy "
                "of serverk --mirror.",
     .places = COMMAND_SHELL,
     .min_operands = 0,
     .max_operands = 1,
     RUNS(restore_run, restore_option_rows, restore_option_defaults)},
    {.name = "doctor",
     .arguments = "",
     .summary = "check limits, queues, permissions and server",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     .formats = FORMATS_OF_TEXT,
     RUNS(doctor_run, doctor_option_rows, doctor_option_defaults)},
    {.name = "timing",
     .arguments = "[on|off]",
     .summary = "print how long each command took",
     .places = COMMAND_PROMPT,
     .max_operands = 1,
     .run = timing_run},
    {.name = "format",
     .arguments = "[text|raw|json|csv]",
     .summary = "show or set the format of answers",
     .places = COMMAND_PROMPT,
     .max_operands = 1,
     .run = format_run},
    {.name = "help",
     .arguments = "[COMMAND]",
     .summary = "show this help, or that of a command",
     .places = COMMAND_SHELL | COMMAND_PROMPT,
     .max_operands = 1,
     .run = help_run},
    {.name = "quit",
     .alias = "exit",
     .arguments = "",
     .summary = "leave (or press Ctrl-D)",
     .places = COMMAND_PROMPT,
     .run = quit_run},
};
const size_t command_count = sizeof commands / sizeof commands[0];

#include "serverk/config/options.h"

#include <getopt.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/parse.h"
#include "wire/queue_name.h"

static const char *const lanes_names[] = {
    [LANES_AUTO] = "auto", [LANES_WORKER] = "worker", [LANES_SHARED] = "shared"};

static const char *const sched_names[] = {
    [ORDER_FIFO] = "fifo", [ORDER_PRIORITY] = "priority", [ORDER_COST] = "cost"};

static const char *const durability_names[] = {[KVSTORE_SYNC_NONE] = "none",
                                               [KVSTORE_SYNC_INTERVAL] = "interval",
                                               [KVSTORE_SYNC_ALWAYS] = "always"};

const char *lanes_mode_name(enum lanes_mode mode)
{
    return lanes_names[mode];
}

const char *sched_name(enum request_order order)
{
    return sched_names[order];
}

const char *durability_name(enum kvstore_durability durability)
{
    return durability_names[durability];
}

/* Parsers of one argument each: false if it is none of those that the row's `expects` names. ------ */

static bool parse_u32(const char *text, uint64_t min, uint64_t max, uint32_t *number)
{
    uint64_t wide;
    if (!parse_u64(text, min, max, &wide))
        return false;
    *number = (uint32_t)wide;
    return true;
}

static bool parse_datafiles(const char *text, struct server_options *options)
{
    return parse_u32(text, 1, KVSTORE_MAX_DATAFILES, &options->datafiles);
}

static bool parse_workers(const char *text, struct server_options *options)
{
    return parse_u32(text, 1, OPTIONS_MAX_WORKERS, &options->workers);
}

static bool parse_dir(const char *text, struct server_options *options)
{
    options->dir = text;
    return text[0] != '\0';
}

static bool parse_queue(const char *text, struct server_options *options)
{
    options->queue = text;
    return wire_name_valid(text);
}

static bool parse_sync(const char *text, struct server_options *options)
{
    const char *colon = strchr(text, ':');
    size_t word_bytes = colon ? (size_t)(colon - text) : strlen(text);
    for (int i = 0; i <= KVSTORE_SYNC_ALWAYS; i++) {
        if (strlen(durability_names[i]) != word_bytes ||
            strncmp(text, durability_names[i], word_bytes) != 0)
            continue;
        options->durability = (enum kvstore_durability)i;
        if (!colon)
            return true;
        uint64_t interval_ms;
        if (i != KVSTORE_SYNC_INTERVAL || !parse_duration_ms(colon + 1, 1, 3600000, &interval_ms))
            return false;
        options->sync_interval_ms = (uint32_t)interval_ms;
        return true;
    }
    return false;
}

static bool parse_locking(const char *text, struct server_options *options)
{
    for (int i = 0; i < KVSTORE_LOCKING_COUNT; i++) {
        options->locking = (enum kvstore_locking)i;
        if (strcmp(text, kvstore_locking_name(options->locking)) == 0)
            return true;
    }
    return false;
}

static bool parse_rwlock(const char *text, struct server_options *options)
{
    options->rwlock_given = true;
    for (int i = 0; i < KVSTORE_RWLOCK_COUNT; i++) {
        options->rwlock = (enum kvstore_rwlock)i;
        if (strcmp(text, kvstore_rwlock_name(options->rwlock)) == 0)
            return true;
    }
    return false;
}

static bool parse_io(const char *text, struct server_options *options)
{
    for (int i = 0; i < KVSTORE_IO_COUNT; i++) {
        options->io = (enum kvstore_io)i;
        if (strcmp(text, kvstore_io_name(options->io)) == 0)
            return true;
    }
    return false;
}

static bool parse_cache(const char *text, struct server_options *options)
{
    return parse_size(text, 0, OPTIONS_MAX_CACHE_BYTES, &options->cache_bytes) &&
           (options->cache_bytes == 0 || options->cache_bytes >= KVSTORE_MIN_CACHE_BYTES);
}

static bool parse_allocator(const char *text, struct server_options *options)
{
    for (int i = 0; i < KVSTORE_ALLOCATOR_COUNT; i++) {
        options->allocator = (enum kvstore_allocator)i;
        if (strcmp(text, kvstore_allocator_name(options->allocator)) == 0)
            return true;
    }
    return false;
}

static bool parse_verify(const char *text, struct server_options *options)
{
    options->verify_every_read = strcmp(text, "every") == 0;
    return options->verify_every_read || strcmp(text, "first") == 0;
}

static bool parse_dispatch(const char *text, struct server_options *options)
{
    return dispatch_model_parse(text, &options->dispatch);
}

static bool parse_lanes(const char *text, struct server_options *options)
{
    for (size_t i = 0; i < sizeof lanes_names / sizeof lanes_names[0]; i++) {
        options->lanes = (enum lanes_mode)i;
        if (strcmp(text, lanes_names[i]) == 0)
            return true;
    }
    return false;
}

static bool parse_sched(const char *text, struct server_options *options)
{
    for (size_t i = 0; i < sizeof sched_names / sizeof sched_names[0]; i++) {
        options->sched = (enum request_order)i;
        if (strcmp(text, sched_names[i]) == 0)
            return true;
    }
    return false;
}

static bool parse_sched_queue(const char *text, struct server_options *options)
{
    return parse_u32(text, 1, OPTIONS_MAX_SCHED_QUEUE, &options->sched_queue);
}

static bool set_nice(const char *text, struct server_options *options)
{
    (void)text;
    return options->nice = true;
}

static bool parse_spin(const char *text, struct server_options *options)
{
    return wire_spin_parse(text, &options->spin);
}

static bool parse_max_value(const char *text, struct server_options *options)
{
    uint64_t bytes;
    if (!parse_size(text, 1, KVSTORE_MAX_VALUE_BYTES, &bytes))
        return false;
    options->max_value_bytes = (uint32_t)bytes;
    return true;
}

/* The owner must read and write; others may only write: a reader of a request queue could take other
 * people's requests away. */
static bool parse_mode(const char *text, struct server_options *options)
{
    char *end;
    unsigned long mode = strtoul(text, &end, 8);
    if (text[0] < '0' || text[0] > '7' || *end != '\0')
        return false;
    options->mode = (mode_t)mode;
    return mode == 0600 || mode == 0620 || mode == 0622;
}

static bool parse_group(const char *text, struct server_options *options)
{
    const struct group *group = getgrnam(text);
    if (group) {
        options->group = group->gr_gid;
        return true;
    }
    uint32_t number;
    if (!parse_u32(text, 0, UINT32_MAX - 1, &number))
        return false;
    options->group = (gid_t)number;
    return true;
}

static bool parse_pidfile(const char *text, struct server_options *options)
{
    options->pidfile = text;
    return text[0] != '\0';
}

static bool set_daemon(const char *text, struct server_options *options)
{
    (void)text;
    return options->daemon = true;
}

static bool parse_sandbox(const char *text, struct server_options *options)
{
    options->sandbox = strcmp(text, "on") == 0;
    return options->sandbox || strcmp(text, "off") == 0;
}

static bool set_core_dumps(const char *text, struct server_options *options)
{
    (void)text;
    return options->core_dumps = true;
}

static bool set_check(const char *text, struct server_options *options)
{
    (void)text;
    return options->check = true;
}

static bool set_verbose(const char *text, struct server_options *options)
{
    (void)text;
    return options->verbose = true;
}

/* The table ---------------------------------------------------------------------------------- */

struct option_row {
    const char *name;
    int letter;                                                      /* 0: only the long form */
    const char *argument;                                            /* NULL: takes none */
    bool (*parse)(const char *text, struct server_options *options); /* NULL: help, version */
    const char *expects;                                             /* what is right, for errors */
    const char *help;
};

static const struct option_row rows[] = {
    {"datafiles", 'd', "D", parse_datafiles, "a number of data files, 1..4096",
     "data files (default: the store's own, 4 for a new one)"},
    {"workers", 'w', "M", parse_workers, "a number of worker threads, 1..256",
     "worker threads (default: the number of CPUs); see --dispatch in serverk(1)"},
    {"dir", 'f', "DIR", parse_dir, "a directory", "data directory (default ./datafiles)"},
    {"mq", 'm', "NAME", parse_queue, "'/' and then 1..64 of letters, digits, '.', '_', '-'",
     "request queue (default " WIRE_DEFAULT_QUEUE_NAME ")"},
    {"sync", 0, "WHEN", parse_sync, "none, interval, interval:MS (1..3600000) or always",
     "none|interval[:MS]|always (default interval:1000)"},
    {"verify", 0, "WHEN", parse_verify, "first or every",
     "first|every: which reads of values from 16 KiB on are verified (default first)"},
    {"locking", 0, "STRATEGY", parse_locking,
     "file-rwlock, file-mutex, global-rwlock, global-mutex or optimistic",
     "file-rwlock|file-mutex|global-rwlock|global-mutex|optimistic (default file-rwlock)"},
    {"rwlock", 0, "PREFERENCE", parse_rwlock, "prefer-writer or prefer-reader",
     "prefer-writer|prefer-reader: who goes first at a lock (default prefer-writer)"},
    {"cache", 0, "SIZE", parse_cache, "0 or a size from 64k to 1024G (16M, 1G)",
     "memory for values that were read (default 0: none)"},
    {"allocator", 0, "WHICH", parse_allocator, "system, locked or thread-local",
     "system|locked|thread-local: memory of the cache (default system)"},
    {"dispatch", 0, "MODEL", parse_dispatch, "pool, event, thread or process",
     "pool|event|thread|process: who executes requests (default pool)"},
    {"io", 0, "HOW", parse_io, "mmap or pread",
     "mmap|pread: files mapped, or system calls (default mmap)"},
    {"lanes", 0, "MODE", parse_lanes, "auto, worker or shared",
     "auto|worker|shared: how requests reach the workers (default auto)"},
    {"sched", 0, "ORDER", parse_sched, "fifo, priority or cost",
     "fifo|priority|cost: which request comes first (default fifo)"},
    {"sched-queue", 0, "N", parse_sched_queue, "a number of messages, 1..65536",
     "of --sched cost: messages that wait in the daemon (default 4096)"},
    {"nice", 0, NULL, set_nice, NULL, "a request's priority sets its worker's nice value"},
    {"spin", 0, "HOW", parse_spin, "auto, off or microseconds, 1..100000",
     "auto|off|USEC: polling before a worker sleeps (default auto)"},
    {"max-value", 0, "SIZE", parse_max_value, "a size from 1 to 64M (4096, 64k, 1M)",
     "largest value (default 1M, at most 64M)"},
    {"mode", 0, "OCTAL", parse_mode,
     "0600, 0620 or 0622 (whoever can read a request queue can steal requests)",
     "of the request queues: 0600, 0620, 0622 (default 0600)"},
    {"group", 0, "GROUP", parse_group, "a group's name or number",
     "group of the request queues, for --mode 0620"},
    {"daemon", 0, NULL, set_daemon, NULL, "go to the background once ready"},
    {"pidfile", 0, "FILE", parse_pidfile, "a file", "write the pid there; removed at the end"},
    {"sandbox", 0, "WHETHER", parse_sandbox, "on or off",
     "on|off: give up other files and system calls (default on)"},
    {"core-dumps", 0, NULL, set_core_dumps, NULL,
     "a crash may leave a core file, with values in it"},
    {"check", 0, NULL, set_check, NULL, "check options, limits and store, then exit"},
    {"verbose", 'v', NULL, set_verbose, NULL, "log sessions too"},
    {"version", 'V', NULL, NULL, NULL, "print the version"},
    {"help", 'h', NULL, NULL, NULL, "print this"},
};

#define ROW_COUNT (sizeof rows / sizeof rows[0])

/* getopt_long returns this for row i; above every letter. */
#define ROW_CODE(i) (256 + (int)(i))

static void print_help(void)
{
    printf("usage: serverk [-d D] [-w M] [-f DIR] [-m NAME] [options]\n"
           "The daemon of mqkv, a key-value store over POSIX message queues.\n\n");
    for (size_t i = 0; i < ROW_COUNT; i++) {
        char form[40];
        snprintf(form, sizeof form, "--%s%s%s", rows[i].name, rows[i].argument ? " " : "",
                 rows[i].argument ? rows[i].argument : "");
        if (rows[i].letter)
            printf("  -%c, %-20s %s\n", rows[i].letter, form, rows[i].help);
        else
            printf("      %-20s %s\n", form, rows[i].help);
    }
    printf("\nSIGTERM and SIGINT stop it cleanly. Manual: serverk(1).\n");
}

static void print_version(void)
{
#ifdef MQKV_SANITIZER
    printf("serverk " MQKV_VERSION " (built with " MQKV_SANITIZER ")\n");
#else
    printf("serverk " MQKV_VERSION "\n");
#endif
}

static const struct option_row *row_of(int code)
{
    for (size_t i = 0; i < ROW_COUNT; i++)
        if (code == ROW_CODE(i) || (rows[i].letter && code == rows[i].letter))
            return &rows[i];
    return NULL;
}

/* letters: ':' first (so that getopt tells a missing argument from an unknown option), then "d:...". */
static void build_getopt_tables(struct option *longs, char *letters)
{
    *letters++ = ':';
    for (size_t i = 0; i < ROW_COUNT; i++) {
        int has_argument = rows[i].argument ? required_argument : no_argument;
        longs[i] = (struct option){rows[i].name, has_argument, NULL, ROW_CODE(i)};
        if (rows[i].letter) {
            *letters++ = (char)rows[i].letter;
            if (rows[i].argument)
                *letters++ = ':';
        }
    }
    longs[ROW_COUNT] = (struct option){NULL, 0, NULL, 0};
    *letters = '\0';
}

/* getopt_long returned ':' or '?'. */
static enum options_outcome explain_bad_option(int code, char **argv, struct kv_error *error)
{
    const struct option_row *known = row_of(optopt);
    if (code == ':' && known)
        kv_error_set(error, KV_USAGE, "option --%s needs an argument: %s", known->name,
                     known->expects);
    else if (known)
        kv_error_set(error, KV_USAGE, "option --%s takes no argument", known->name);
    else if (optopt)
        kv_error_set(error, KV_USAGE, "unknown option '-%c': serverk -h lists the options", optopt);
    else
        kv_error_set(error, KV_USAGE,
                     "unknown or ambiguous option '%s': serverk -h lists the options",
                     argv[optind - 1]);
    return OPTIONS_BAD;
}

static void set_defaults(struct server_options *options)
{
    *options = (struct server_options){
        .dir = "./datafiles",
        .queue = WIRE_DEFAULT_QUEUE_NAME,
        .dispatch = DISPATCH_POOL,
        .durability = KVSTORE_SYNC_INTERVAL,
        .sync_interval_ms = 1000,
        .locking = KVSTORE_FILE_RWLOCK,
        .io = KVSTORE_IO_MMAP,
        .lanes = LANES_AUTO,
        .sched = ORDER_FIFO,
        .sched_queue = OPTIONS_DEFAULT_SCHED_QUEUE,
        .spin = {.mode = WIRE_SPIN_AUTO},
        .max_value_bytes = KVSTORE_DEFAULT_MAX_VALUE_BYTES,
        .mode = 0600,
        .group = (gid_t)-1,
        .sandbox = true,
    };
}

static enum options_outcome check_rwlock(const struct server_options *options,
                                         struct kv_error *error)
{
    if (!options->rwlock_given || kvstore_locking_has_rwlocks(options->locking))
        return OPTIONS_RUN;
    kv_error_set(error, KV_USAGE,
                 "--rwlock: '%s' has no meaning with --locking %s, whose locks are mutexes; leave "
                 "out one of the two",
                 kvstore_rwlock_name(options->rwlock), kvstore_locking_name(options->locking));
    return OPTIONS_BAD;
}

static enum options_outcome check_sched(const struct server_options *options,
                                        struct kv_error *error)
{
    if (options->sched == ORDER_COST && options->lanes != LANES_AUTO)
        kv_error_set(error, KV_USAGE,
                     "--sched cost needs --lanes auto, where every worker serves every lane; it is "
                     "--lanes %s",
                     lanes_mode_name(options->lanes));
    else if (options->nice && options->sched == ORDER_FIFO)
        kv_error_set(error, KV_USAGE,
                     "--nice: with --sched fifo requests bring no priority along; add --sched "
                     "priority or --sched cost");
    else if (options->nice && options->dispatch == DISPATCH_PROCESS)
        kv_error_set(error, KV_USAGE,
                     "--nice is for threads: it has no meaning with --dispatch process; leave out "
                     "one of the two");
    else
        return OPTIONS_RUN;
    return OPTIONS_BAD;
}

/* What follows an option is its argument for getopt, whatever it looks like; glued to it, it is meant. */
static bool took_an_option(char **argv)
{
    return optarg && optarg == argv[optind - 1] && strncmp(optarg, "--", 2) == 0;
}

/* Fills in the default of -w, which depends on --dispatch. */
static enum options_outcome settle_workers(struct server_options *options, struct kv_error *error)
{
    if (options->workers == 0)
        options->workers = dispatch_model_default_workers(options->dispatch);
    if (options->dispatch != DISPATCH_EVENT || options->workers == 1)
        return OPTIONS_RUN;
    kv_error_set(error, KV_USAGE,
                 "--workers: '%u' has no meaning with --dispatch event, where one thread does "
                 "everything; leave out one of the two",
                 options->workers);
    return OPTIONS_BAD;
}

/* What each option alone can not tell. */
static enum options_outcome check_together(struct server_options *options, struct kv_error *error)
{
    enum options_outcome outcome = check_rwlock(options, error);
    if (outcome == OPTIONS_RUN)
        outcome = check_sched(options, error);
    return outcome == OPTIONS_RUN ? settle_workers(options, error) : outcome;
}

enum options_outcome options_parse(int argc, char **argv, struct server_options *options,
                                   struct kv_error *error)
{
    struct option longs[ROW_COUNT + 1];
    char letters[2 * ROW_COUNT + 2];
    build_getopt_tables(longs, letters);
    set_defaults(options);
    opterr = 0;
    optind = 0; /* glibc: start anew */
    int code;
    while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        const struct option_row *row = row_of(code);
        if (!row)
            return explain_bad_option(code, argv, error);
        if (!row->parse) {
            if (row->letter == 'h')
                print_help();
            else
                print_version();
            return OPTIONS_DONE;
        }
        if (took_an_option(argv)) {
            kv_error_set(error, KV_USAGE,
                         "option --%s needs an argument, %s; '%s' looks like an option (if it is "
                         "meant: --%s=%s)",
                         row->name, row->expects, optarg, row->name, optarg);
            return OPTIONS_BAD;
        }
        if (!row->parse(optarg, options)) {
            kv_error_set(error, KV_USAGE, "--%s: '%s' is not %s", row->name, optarg, row->expects);
            return OPTIONS_BAD;
        }
    }
    if (optind < argc) {
        kv_error_set(error, KV_USAGE, "argument '%s' is too much: serverk takes only options",
                     argv[optind]);
        return OPTIONS_BAD;
    }
    return check_together(options, error);
}

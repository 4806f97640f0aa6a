/*
 * kvcheck: looks after the data files of a store that no daemon uses: verifies, dumps, salvages.
 * docs/kvcheck.1 is its manual.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/standard_files.h"
#include "common/options/option_table.h"
#include "kvstore/kvcheck/record_dump.h"
#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/log_ends.h"
#include "kvstore/kvcheck/findings.h"
#include "kvstore/kvcheck/salvage.h"
#include "kvstore/kvcheck/verify.h"
#include "kvstore/api/lockfile.h"
#include "mqkv/kvstore.h"

#define ONLINE_NICE 10

enum exit_status { EXIT_SOUND = 0, EXIT_DAMAGE = 1, EXIT_USAGE = 2, EXIT_UNREADABLE = 4 };

/* The command line. */
struct kvcheck_options {
    const char *dir;
    const char *salvage_out; /* NULL: no --salvage */
    const char *to;          /* of --resize and --upgrade; NULL: not given */
    uint64_t resize;         /* number of data files; 0: not given */
    bool upgrade;
    bool online;
    bool dump;
    int format; /* enum dump_format; -1: not given */
    bool help, version;
};

static const char usage[] = "usage: kvcheck [--online] DIR\n"
                            "       kvcheck --dump [--format text|json] DIR\n"
                            "       kvcheck --salvage OUT DIR\n"
                            "       kvcheck --resize D --to OUT DIR\n"
                            "       kvcheck --upgrade --to OUT DIR\n"
                            "       kvcheck -h | -V\n";

static const char *format_of(int format)
{
    static const char *const names[] = {[DUMP_TEXT] = "text", [DUMP_JSON] = "json"};
    return (size_t)format < sizeof names / sizeof names[0] ? names[format] : NULL;
}

#define FIELD(name) OPTION_FIELD(struct kvcheck_options, name)

static const struct option_row rows[] = {
    {"online", 0, OPTION_FLAG, NULL, "check a store even while a daemon is using it",
     FIELD(online)},
    {"dump", 0, OPTION_FLAG, NULL, "print every intact record, one per line", FIELD(dump)},
    {"format", 0, OPTION_CHOICE, "FORMAT", "format of the dump: text (default) or json",
     FIELD(format), .choice_name = format_of},
    {"salvage", 0, OPTION_TEXT, "OUT",
     "copy the newest intact record of every key to a new store in OUT", FIELD(salvage_out),
     .expects = "OUT, a new or empty directory"},
    {"resize", 0, OPTION_NUMBER, "D", "copy all keys to a new store of D data files", FIELD(resize),
     .min = 1, .max = KVSTORE_MAX_DATAFILES},
    {"upgrade", 0, OPTION_FLAG, NULL, "copy all keys to a new store of the newest format",
     FIELD(upgrade)},
    {"to", 0, OPTION_TEXT, "OUT", "the directory of the new store, which is new or empty",
     FIELD(to), .expects = "OUT, a new or empty directory"},
    {"help", 'h', OPTION_STOP, NULL, "print this", FIELD(help)},
    {"version", 'V', OPTION_STOP, NULL, "print the version", FIELD(version)},
    {.name = NULL},
};

static void print_kvcheck_help(void)
{
    printf(
        "%s\n"
        "Verifies every record of every data file of the store in DIR and prints what the files\n"
        "hold. No daemon may be using the store, except with --online.\n\n",
        usage);
    option_print_help(stdout, rows, 20);
    printf("\nExit status: 0 sound, 1 damage (or --salvage lost something), 2 wrong usage,\n"
           "4 cannot read the store. Manual: kvcheck(1).\n");
}

static int complain(const char *sentence)
{
    fprintf(stderr, "kvcheck: %s\n%s", sentence, usage);
    return EXIT_USAGE;
}

/* Returns what is wrong with the options together; NULL: nothing. */
static const char *fault_of(const struct kvcheck_options *options, int operands)
{
    bool rewrites = options->resize > 0 || options->upgrade;
    if (options->dump + (options->salvage_out != NULL) + rewrites > 1)
        return "--dump, --salvage, and --resize or --upgrade exclude each other";
    if (options->online && (options->dump || options->salvage_out || rewrites))
        return "--online only verifies";
    if (rewrites != (options->to != NULL))
        return rewrites ? "--resize and --upgrade need --to OUT"
                        : "--to needs --resize or --upgrade";
    if (options->format >= 0 && !options->dump)
        return "--format needs --dump";
    if (operands == 0 && options->salvage_out)
        return "--salvage needs two directories: OUT, which is new or empty, then DIR, the store's";
    if (operands == 0 && options->to)
        return "--to needs two directories: OUT, which is new or empty, then DIR, the store's";
    if (operands == 0)
        return "no directory given";
    return operands > 1 ? "more than one directory given" : NULL;
}

/* Returns -1: go on; else the exit status. */
static int parse_command_line(int argc, char **argv, struct kvcheck_options *options)
{
    const struct option_set sets[] = {{.rows = rows, .target = options}, {.rows = NULL}};
    struct kv_error error = {0};
    if (option_take_argv(sets, "kvcheck -h lists the options", &argc, argv, &error) != KV_OK)
        return complain(error.text);
    if (options->help)
        print_kvcheck_help();
    else if (options->version)
        puts("kvcheck " MQKV_VERSION);
    if (options->help || options->version)
        return EXIT_SOUND;
    const char *fault = fault_of(options, argc - 1);
    if (fault)
        return complain(fault);
    options->dir = argv[1];
    return -1;
}

/* Runs what needs a store that no daemon uses. Holds: the store's lock, shared. */
static enum kv_status run_locked(const struct kvcheck_options *options, int dir_fd,
                                 struct findings *findings, struct kv_error *error)
{
    struct layout layout;
    uint64_t *ends;
    enum kv_status status = layout_find(&layout, dir_fd, options->dir, error);
    if (status != KV_OK)
        return status;
    if (options->to)
        return rewrite_store(dir_fd, &layout, options->to, (uint32_t)options->resize, findings,
                             error);
    status = log_ends_find(dir_fd, &layout, &ends, error);
    if (status != KV_OK)
        return status;
    layout.ends = ends;
    if (options->dump)
        status = dump_store(dir_fd, &layout, options->format == DUMP_JSON ? DUMP_JSON : DUMP_TEXT,
                            findings, error);
    else if (options->salvage_out)
        status = salvage_store(dir_fd, &layout, options->salvage_out, findings, error);
    else
        status = verify_store(dir_fd, &layout, findings, error);
    free(ends);
    return status;
}

/* Verifies a store that a daemon uses, whose lock the daemon has. Runs at low priority, so that the
 * daemon has the disk and the CPU first. */
static enum kv_status run_online(const struct kvcheck_options *options, int dir_fd,
                                 struct findings *findings, struct kv_error *error)
{
    struct layout layout;
    setpriority(PRIO_PROCESS, 0, ONLINE_NICE);
    syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
    enum kv_status status = layout_find(&layout, dir_fd, options->dir, error);
    return status == KV_OK ? verify_live_store(dir_fd, &layout, findings, error) : status;
}

static enum kv_status run_kvcheck(const struct kvcheck_options *options, struct findings *findings,
                                  struct kv_error *error)
{
    int dir_fd = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return kv_error_set_errno(error, "%s: cannot open the directory", options->dir);
    struct lockfile *lockfile;
    enum kv_status status = lockfile_acquire(options->dir, dir_fd, true, &lockfile, error);
    if (status == KV_OK) {
        status = run_locked(options, dir_fd, findings, error);
        lockfile_release(lockfile);
    } else if (status == KV_BUSY && options->online) {
        status = run_online(options, dir_fd, findings, error);
    } else if (status == KV_BUSY) {
        const struct kv_error bare = *error;
        kv_error_set(error, status, "%s, or check it as it runs: kvcheck --online", bare.text);
    }
    close(dir_fd);
    if (status == KV_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = kv_error_set_errno(error, "cannot write the output");
    return status;
}

int main(int argc, char **argv)
{
    standard_files_fill();
    struct kvcheck_options options = {.format = -1};
    int exit_status = parse_command_line(argc, argv, &options);
    if (exit_status >= 0)
        return exit_status;

    signal(SIGXFSZ,
           SIG_IGN); /* a file larger than ulimit -f makes its write fail, and ends nothing */
    log_set_level(LOG_LEVEL_ERROR);
    struct findings findings = {options.dump ? stderr : stdout, options.dir, 0};
    struct kv_error error = {0};
    enum kv_status status = run_kvcheck(&options, &findings, &error);
    if (status != KV_OK) {
        fprintf(stderr, "kvcheck: %s\n", error.text);
        return status == KV_USAGE ? EXIT_USAGE : EXIT_UNREADABLE;
    }
    return findings.damages > 0 ? EXIT_DAMAGE : EXIT_SOUND;
}

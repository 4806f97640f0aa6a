/*
 * kvcheck: looks after the data files of a store that no daemon uses: verifies, dumps, salvages.
 * docs/kvcheck.1 is its manual.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "kvstore/kvcheck/record_dump.h"
#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/findings.h"
#include "kvstore/kvcheck/salvage.h"
#include "kvstore/kvcheck/verify.h"
#include "kvstore/api/lockfile.h"

enum exit_status { EXIT_SOUND = 0, EXIT_DAMAGE = 1, EXIT_USAGE = 2, EXIT_UNREADABLE = 4 };

struct command {
    const char *dir;
    const char *salvage_out; /* NULL: no salvage */
    bool dump;
    enum dump_format format;
};

static const char usage[] = "usage: kvcheck DIR\n"
                            "       kvcheck --dump [--format text|json] DIR\n"
                            "       kvcheck --salvage OUT DIR\n"
                            "       kvcheck -h | -V\n";

static const char help[] =
    "\n"
    "Verifies every record of every data file of the store in DIR, which no daemon may be using,\n"
    "and prints what the files hold.\n"
    "\n"
    "  --dump            print every intact record, one a line\n"
    "  --format FORMAT   of the dump: text (the default) or json\n"
    "  --salvage OUT     copy the newest intact record of every key to a new store in OUT\n"
    "  -h, --help        this text\n"
    "  -V, --version     the version\n"
    "\n"
    "Exit status: 0 sound, 1 damage (or --salvage lost something), 2 usage, 4 can not read.\n";

enum { OPTION_DUMP = 256, OPTION_FORMAT, OPTION_SALVAGE };

static const struct option options[] = {
    {"dump", no_argument, NULL, OPTION_DUMP},
    {"format", required_argument, NULL, OPTION_FORMAT},
    {"salvage", required_argument, NULL, OPTION_SALVAGE},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int complain(const char *what, const char *value)
{
    fprintf(stderr, "kvcheck: %s%s%s\n%s", what, value ? ": " : "", value ? value : "", usage);
    return EXIT_USAGE;
}

/* -1: go on; else the exit status. */
static int parse_command(int argc, char **argv, struct command *command)
{
    bool format_given = false;
    for (int option; (option = getopt_long(argc, argv, "hV", options, NULL)) != -1;) {
        switch (option) {
        case OPTION_DUMP:
            command->dump = true;
            break;
        case OPTION_FORMAT:
            format_given = true;
            if (strcmp(optarg, "json") == 0)
                command->format = DUMP_JSON;
            else if (strcmp(optarg, "text") != 0)
                return complain("--format is text or json, not", optarg);
            break;
        case OPTION_SALVAGE:
            command->salvage_out = optarg;
            break;
        case 'h':
            printf("%s%s", usage, help);
            return EXIT_SOUND;
        case 'V':
            puts("kvcheck " MQKV_VERSION);
            return EXIT_SOUND;
        default:
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
    }
    if (command->dump && command->salvage_out)
        return complain("--dump and --salvage exclude each other", NULL);
    if (format_given && !command->dump)
        return complain("--format goes with --dump", NULL);
    if (argc - optind != 1)
        return complain(argc == optind ? "no directory given" : "more than one directory given",
                        NULL);
    command->dir = argv[optind];
    return -1;
}

/* Holds: the store's lock, shared. */
static enum kv_status run_locked(const struct command *command, int dir_fd, struct report *report,
                                 struct kv_error *error)
{
    struct layout layout;
    enum kv_status status = layout_find(&layout, dir_fd, command->dir, error);
    if (status != KV_OK)
        return status;
    if (command->dump)
        return dump_store(dir_fd, &layout, command->format, report, error);
    if (command->salvage_out)
        return salvage_store(dir_fd, &layout, command->salvage_out, report, error);
    return verify_store(dir_fd, &layout, report, error);
}

static enum kv_status run(const struct command *command, struct report *report,
                          struct kv_error *error)
{
    int dir_fd = open(command->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return kv_error_set_errno(error, "%s: can not open the directory", command->dir);
    struct lockfile *lockfile;
    enum kv_status status = lockfile_acquire(command->dir, dir_fd, true, &lockfile, error);
    if (status == KV_OK) {
        status = run_locked(command, dir_fd, report, error);
        lockfile_release(lockfile);
    }
    close(dir_fd);
    if (status == KV_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = kv_error_set_errno(error, "can not write the output");
    return status;
}

int main(int argc, char **argv)
{
    struct command command = {.format = DUMP_TEXT};
    int exit_status = parse_command(argc, argv, &command);
    if (exit_status >= 0)
        return exit_status;

    signal(SIGXFSZ, SIG_IGN); /* a file beyond ulimit -f is an error of its write */
    log_set_level(LOG_LEVEL_ERROR);
    struct report report = {command.dump ? stderr : stdout, command.dir, 0};
    struct kv_error error = {0};
    enum kv_status status = run(&command, &report, &error);
    if (status != KV_OK) {
        fprintf(stderr, "kvcheck: %s\n", error.text);
        return status == KV_USAGE ? EXIT_USAGE : EXIT_UNREADABLE;
    }
    return report.damages > 0 ? EXIT_DAMAGE : EXIT_SOUND;
}

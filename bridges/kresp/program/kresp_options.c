#include "bridges/kresp/program/kresp_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/options/option_table.h"

#define HINT         "kresp -h lists the options"
#define HELP_COLUMNS 28 /* width of the column before the meaning of an option */

#define MAX_THREADS 64u

/* The owner must be able to read and write, or nobody could connect. */
static bool parse_mode(const char *text, void *field)
{
    char *end;
    unsigned long mode = strtoul(text, &end, 8);
    if (text[0] < '0' || text[0] > '7' || *end != '\0')
        return false;
    *(mode_t *)field = (mode_t)mode;
    return mode <= 0777 && (mode & 0600) == 0600;
}

static const char *sandbox_of(int on)
{
    static const char *const names[] = {"off", "on"};
    return on >= 0 && on <= 1 ? names[on] : NULL;
}

/* The command line as it was typed. */
struct kresp_line {
    struct kresp_options options;
    bool help, version;
};

#define FIELD(name) OPTION_FIELD(struct kresp_line, options.name)

static const struct option_row rows[] = {
    {"mq", 'm', OPTION_TEXT, "NAME",
     "request queue of serverk (default: $MQKV_QUEUE, else /serverk)", FIELD(queue), .min = 1,
     .expects = "the name of a queue"},
    {"socket", 's', OPTION_TEXT, "PATH", "Unix socket (default ./kresp.sock)", FIELD(socket_path),
     .min = 1, .expects = "a path"},
    {"mode", 0, OPTION_PARSED, "OCTAL", "permissions of the socket (default 0600)",
     FIELD(socket_mode), .parse = parse_mode,
     .expects = "permissions in octal by which its owner reads and writes, such as 0600 or 0660"},
    {"port", 'p', OPTION_NUMBER, "PORT", "listen on 127.0.0.1, too (default 0: not)", FIELD(port),
     .max = 65535},
    {"requirepass", 0, OPTION_TEXT, "PASSWORD",
     "what clients must give; other users see it in ps: better is a file", FIELD(password),
     .min = 1, .expects = "a password"},
    {"requirepass-file", 0, OPTION_TEXT, "FILE", "the same, as the first line of FILE",
     FIELD(password_file), .min = 1, .expects = "a file"},
    {"threads", 't', OPTION_NUMBER, "N", "threads (default: half of the CPUs, 1 to 64)",
     FIELD(threads), .min = 1, .max = MAX_THREADS},
    {"clients", 0, OPTION_NUMBER, "N", "the most connections at the same time (default 1024)",
     FIELD(max_clients), .min = 1, .max = 1000000},
    {"pipeline", 0, OPTION_NUMBER, "N", "commands of a connection executed at once (default 128)",
     FIELD(max_pipeline), .min = 1, .max = 1000000},
    {"request", 0, OPTION_SIZE, "SIZE", "largest request, or transaction (default 64M)",
     FIELD(request_bytes), .min = (uint64_t)128 << 10, .max = (uint64_t)1 << 40},
    {"buffers", 0, OPTION_SIZE, "SIZE",
     "memory for what clients have sent and not yet read (default 256M)", FIELD(buffer_bytes),
     .min = (uint64_t)1 << 20, .max = (uint64_t)1 << 44},
    {"timeout", 0, OPTION_DURATION_MS, "TIME", "how long a command waits for serverk (default 5s)",
     FIELD(timeout_ms), .min = 1, .max = 3600000},
    {"allow-flush", 0, OPTION_FLAG, NULL, "let FLUSHALL and FLUSHDB delete everything",
     FIELD(allow_flush)},
    {"sandbox", 0, OPTION_CHOICE, "WHETHER",
     "on|off: give up files and system calls that are not needed (default on)", FIELD(sandbox),
     .choice_name = sandbox_of},
    {"verbose", 'v', OPTION_FLAG, NULL, "log every connection", FIELD(verbose)},
    {"version", 'V', OPTION_STOP, NULL, "print the version",
     OPTION_FIELD(struct kresp_line, version)},
    {"help", 'h', OPTION_STOP, NULL, "print this", OPTION_FIELD(struct kresp_line, help)},
    {.name = NULL},
};

static void print_help(void)
{
    printf("usage: kresp [-m NAME] [-s PATH] [options]\n"
           "Serves Redis clients from the store of serverk.\n\n");
    option_print_help(stdout, rows, HELP_COLUMNS);
    printf("\nSIGTERM and SIGINT stop it cleanly. Manual: kresp(1).\n");
}

static struct kresp_options defaults(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return (struct kresp_options){
        .socket_path = "kresp.sock",
        .socket_mode = 0600,
        .sandbox = true,
        .threads = cpus < 4                       ? 1
                   : cpus / 2 > (long)MAX_THREADS ? MAX_THREADS
                                                  : (uint32_t)cpus / 2,
        .timeout_ms = 5000,
        .max_clients = 1024,
        .max_pipeline = 128,
        .buffer_bytes = (uint64_t)256 << 20,
        .request_bytes = (uint64_t)64 << 20,
    };
}

enum kresp_outcome kresp_options_parse(int argc, char **argv, struct kresp_options *options,
                                       struct kv_error *error)
{
    struct kresp_line line = {.options = defaults()};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--loose-watch") == 0) {
            kv_error_set(error, KV_USAGE,
                         "--loose-watch is gone: EXEC is one transaction now, "
                         "whatever keys WATCH names; leave the option out");
            return KRESP_OPTIONS_BAD;
        }
    }
    const struct option_set sets[] = {{.rows = rows, .target = &line}, {.rows = NULL}};
    enum kv_status status = option_take_argv(sets, HINT, &argc, argv, error);
    *options = line.options;
    if (status != KV_OK)
        return KRESP_OPTIONS_BAD;
    if (line.help)
        print_help();
    else if (line.version)
        option_print_version(stdout, "kresp");
    if (line.help || line.version)
        return KRESP_OPTIONS_DONE;
    if (argc > 1) {
        kv_error_set(error, KV_USAGE, "unexpected argument '%s': kresp takes options only",
                     argv[1]);
        return KRESP_OPTIONS_BAD;
    }
    return KRESP_OPTIONS_OK;
}

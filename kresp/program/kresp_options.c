#include "kresp/program/kresp_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/parse.h"

#define MAX_THREADS 64u

static bool parse_queue(const char *text, struct kresp_options *options)
{
    options->queue = text;
    return text[0] != '\0';
}

static bool parse_socket(const char *text, struct kresp_options *options)
{
    options->socket_path = text;
    return text[0] != '\0';
}

static bool parse_mode(const char *text, struct kresp_options *options)
{
    char *end;
    unsigned long mode = strtoul(text, &end, 8);
    options->socket_mode = (mode_t)mode;
    return text[0] >= '0' && text[0] <= '7' && *end == '\0' && mode <= 0777 &&
           (mode & 0600) == 0600;
}

static bool parse_port(const char *text, struct kresp_options *options)
{
    uint64_t port;
    if (!parse_u64(text, 0, 65535, &port))
        return false;
    options->port = (uint16_t)port;
    return true;
}

static bool parse_password(const char *text, struct kresp_options *options)
{
    options->password = text;
    return text[0] != '\0';
}

static bool parse_password_file(const char *text, struct kresp_options *options)
{
    options->password_file = text;
    return text[0] != '\0';
}

static bool parse_threads(const char *text, struct kresp_options *options)
{
    uint64_t threads;
    if (!parse_u64(text, 1, MAX_THREADS, &threads))
        return false;
    options->threads = (uint32_t)threads;
    return true;
}

static bool parse_timeout(const char *text, struct kresp_options *options)
{
    uint64_t timeout_ms;
    if (!parse_duration_ms(text, 1, 3600000, &timeout_ms))
        return false;
    options->timeout_ms = (uint32_t)timeout_ms;
    return true;
}

static bool parse_clients(const char *text, struct kresp_options *options)
{
    return parse_u64(text, 1, 1000000, &options->max_clients);
}

static bool parse_pipeline(const char *text, struct kresp_options *options)
{
    return parse_u64(text, 1, 1000000, &options->max_pipeline);
}

static bool parse_buffers(const char *text, struct kresp_options *options)
{
    return parse_size(text, (uint64_t)1 << 20, (uint64_t)1 << 44, &options->buffer_bytes);
}

static bool parse_request(const char *text, struct kresp_options *options)
{
    return parse_size(text, (uint64_t)128 << 10, (uint64_t)1 << 40, &options->request_bytes);
}

static bool take_flush(const char *text, struct kresp_options *options)
{
    (void)text;
    return options->allow_flush = true;
}

static bool take_loose_watch(const char *text, struct kresp_options *options)
{
    (void)text;
    return options->loose_watch = true;
}

static bool take_verbose(const char *text, struct kresp_options *options)
{
    (void)text;
    return options->verbose = true;
}

/* Help, and what the parser of an option expects. argument NULL: it takes none. */
static const struct kresp_row {
    const char *name;
    char letter; /* 0: none */
    const char *argument;
    bool (*parse)(const char *text, struct kresp_options *options);
    const char *expects;
    const char *help;
} rows[] = {
    {"mq", 'm', "NAME", parse_queue, "the name of a request queue, such as /serverk",
     "queue of serverk (default: $MQKV_QUEUE, else /serverk)"},
    {"socket", 's', "PATH", parse_socket, "a path", "Unix socket (default ./kresp.sock)"},
    {"mode", 0, "OCTAL", parse_mode, "permissions in octal that let its owner read and write: 0600",
     "permissions of the socket (default 0600)"},
    {"port", 'p', "PORT", parse_port, "a number from 0 to 65535",
     "listen on 127.0.0.1 too (default 0: no)"},
    {"requirepass", 0, "PASSWORD", parse_password, "a password that is not empty",
     "ask clients for it (others see it in ps: rather the next)"},
    {"requirepass-file", 0, "FILE", parse_password_file, "a path",
     "the same, from the first line of a file"},
    {"threads", 't', "N", parse_threads, "a number from 1 to 64",
     "threads (default: half of the CPUs)"},
    {"clients", 0, "N", parse_clients, "a number from 1 to 1000000",
     "connections at the same time (default 1024)"},
    {"pipeline", 0, "N", parse_pipeline, "a number from 1 to 1000000",
     "commands of a connection executed at once (default 128)"},
    {"request", 0, "SIZE", parse_request, "a size from 128k to 1024G, such as 64M",
     "largest request, or transaction (default 64M)"},
    {"buffers", 0, "SIZE", parse_buffers, "a size from 1M to 16384G, such as 256M",
     "memory for what clients sent and did not read (default 256M)"},
    {"timeout", 0, "TIME", parse_timeout, "a time from 1ms to 1h, such as 5s",
     "how long a command waits for serverk (default 5s)"},
    {"allow-flush", 0, NULL, take_flush, NULL, "FLUSHALL and FLUSHDB delete everything"},
    {"loose-watch", 0, NULL, take_loose_watch, NULL,
     "EXEC after WATCH of any commands: checked, then executed"},
    {"verbose", 'v', NULL, take_verbose, NULL, "log every connection"},
};

#define ROWS (sizeof rows / sizeof rows[0])

enum { HELP = 'h', VERSION = 'V', FIRST_ROW = 256 };

static void print_help(void)
{
    puts("usage: kresp [option]...\n\nServes Redis clients from the store of serverk.\n\noptions:");
    for (size_t i = 0; i < ROWS; i++) {
        char letter[5] = "   ", left[64];
        if (rows[i].letter)
            snprintf(letter, sizeof letter, "-%c,", rows[i].letter);
        snprintf(left, sizeof left, "%s --%s%s%s", letter, rows[i].name,
                 rows[i].argument ? " " : "", rows[i].argument ? rows[i].argument : "");
        printf("  %-30s %s\n", left, rows[i].help);
    }
    puts("  -h, --help\n  -V, --version");
}

static void print_version(void)
{
#ifdef MQKV_SANITIZER
    printf("kresp %s (%s)\n", MQKV_VERSION, MQKV_SANITIZER);
#else
    printf("kresp %s\n", MQKV_VERSION);
#endif
}

/* What getopt_long wants of the table. */
static void make_getopt(struct option options[ROWS + 3], char letters[2 * ROWS + 4])
{
    size_t size = 0;
    letters[size++] = ':';
    for (size_t i = 0; i < ROWS; i++) {
        options[i] =
            (struct option){rows[i].name, rows[i].argument ? required_argument : no_argument, NULL,
                            FIRST_ROW + (int)i};
        if (!rows[i].letter)
            continue;
        letters[size++] = rows[i].letter;
        if (rows[i].argument)
            letters[size++] = ':';
    }
    options[ROWS] = (struct option){"help", no_argument, NULL, HELP};
    options[ROWS + 1] = (struct option){"version", no_argument, NULL, VERSION};
    options[ROWS + 2] = (struct option){0};
    letters[size++] = HELP;
    letters[size++] = VERSION;
    letters[size] = '\0';
}

static const struct kresp_row *find_row(int found)
{
    for (size_t i = 0; i < ROWS; i++)
        if (found == FIRST_ROW + (int)i || (rows[i].letter && found == rows[i].letter))
            return &rows[i];
    return NULL;
}

static enum kresp_outcome take_option(int found, struct kresp_options *options,
                                      struct kv_error *error)
{
    const struct kresp_row *row = find_row(found);
    if (!row || row->parse(optarg, options))
        return KRESP_OPTIONS_OK;
    kv_error_set(error, KV_USAGE, "--%s: \"%.60s\" is not %s", row->name, optarg, row->expects);
    return KRESP_OPTIONS_BAD;
}

static struct kresp_options defaults(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return (struct kresp_options){
        .socket_path = "kresp.sock",
        .socket_mode = 0600,
        .threads = cpus < 4                 ? 1
                   : cpus / 2 > MAX_THREADS ? MAX_THREADS
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
    struct option long_options[ROWS + 3];
    char letters[2 * ROWS + 4];
    int found;
    *options = defaults();
    make_getopt(long_options, letters);
    opterr = 0;
    while ((found = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        if (found == HELP || found == VERSION) {
            found == HELP ? print_help() : print_version();
            return KRESP_OPTIONS_DONE;
        }
        if (found == '?' || found == ':') {
            kv_error_set(error, KV_USAGE, found == ':' ? "%s needs a value" : "unknown option %s",
                         argv[optind - 1]);
            return KRESP_OPTIONS_BAD;
        }
        if (take_option(found, options, error) != KRESP_OPTIONS_OK)
            return KRESP_OPTIONS_BAD;
    }
    if (optind < argc) {
        kv_error_set(error, KV_USAGE, "unexpected argument '%s': kresp takes options only",
                     argv[optind]);
        return KRESP_OPTIONS_BAD;
    }
    return KRESP_OPTIONS_OK;
}

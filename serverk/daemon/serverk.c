/*
 * serverk: the daemon of mqkv. See docs/serverk.1.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/report/log.h"
#include "common/memory/mapguard.h"
#include "serverk/config/command_line.h"
#include "serverk/config/settings.h"
#include "serverk/daemon/daemonize.h"
#include "common/report/notify.h"
#include "common/report/standard_files.h"
#include "serverk/daemon/server.h"
#include "serverk/daemon/start_check.h"
#include "serverk/daemon/start_limits.h"

enum { EXIT_DONE = 0, EXIT_USAGE = 2, EXIT_FAILED = 4 };

static int fail_start(const struct kv_error *error, int exit_code)
{
    fprintf(stderr, "serverk: %s\n", error->text);
    return exit_code;
}

/* Serves until a signal to stop. `daemonize` (NULL: in the foreground) learns whether the start
 * succeeded. */
static int serve_until_stopped(const struct server_options *options, struct daemonize *daemonize)
{
    struct kv_error error = {0};
    struct server *server;
    enum kv_status status = server_start(options, &server, &error);
    if (status != KV_OK) {
        int exit_code = fail_start(&error, EXIT_FAILED);
        if (daemonize)
            daemonize_failed(daemonize, exit_code);
        return exit_code;
    }
    if (daemonize)
        daemonize_ready(daemonize);
    status = server_run(server, &error);
    if (status == KV_OK)
        return EXIT_DONE;
    log_error("stopped with a failure: %s", error.text);
    return EXIT_FAILED;
}

/* A file that would grow beyond ulimit -f fails that write only, as a full disk does; a log whose
 * reader has gone is no reason to end. Signals that the parent ignores stay ignored, except two for
 * dispatch models that fork: the kernel must leave child processes to be waited for, and an alarm
 * bounds their lives. */
static void set_signals(void)
{
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
    mapguard_install("serverk");
}

static int run_serverk(int argc, char **argv, struct server_options *options)
{
    struct kv_error error = {0};
    if (start_limits_raise(&error) != KV_OK)
        return fail_start(&error, EXIT_FAILED);
    enum options_outcome outcome = command_line_parse(argc, argv, options, &error);
    if (outcome == OPTIONS_DONE)
        return EXIT_DONE;
    if (outcome == OPTIONS_BAD)
        return fail_start(&error, EXIT_USAGE);
    if (options->verbose)
        log_set_level(LOG_LEVEL_DEBUG);
    if (options->check)
        settings_print(options, stdout);
    if (options->check)
        return start_check(options, &error) == KV_OK ? EXIT_DONE : fail_start(&error, EXIT_FAILED);
    if (options->restore_from)
        return server_restore(options, &error) == KV_OK ? EXIT_DONE
                                                        : fail_start(&error, EXIT_FAILED);
    if (options->log && log_open(options->log, &error) != KV_OK)
        return fail_start(&error, EXIT_FAILED);
    set_signals();
    struct daemonize *daemonize = NULL;
    if (options->daemon && daemonize_start(&daemonize, &error) != KV_OK)
        return fail_start(&error, EXIT_FAILED);
    if (notify_open(&error) != KV_OK)
        log_warn("%s", error.text);
    return serve_until_stopped(options, daemonize);
}

int main(int argc, char **argv)
{
    standard_files_fill();
    struct server_options options = {.words = NULL};
    int status = run_serverk(argc, argv, &options);
    options_free(&options);
    return status;
}

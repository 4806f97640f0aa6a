/*
 * kresp: Redis clients on the store of serverk. See docs/kresp.1.
 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/memory/mapguard.h"
#include "common/time/clock.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/notify.h"
#include "common/report/standard_files.h"
#include "bridges/kresp/bridge/bridge.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/program/kresp_options.h"

enum kresp_exit { EXIT_DONE = 0, EXIT_USAGE = 2, EXIT_NO_SERVER = 3, EXIT_FAILED = 4 };

#define MAX_PASSWORD_BYTES 512

/* Descriptors that kresp needs besides those of clients. */
#define OWN_DESCRIPTORS 64u

static int exit_with_error(const struct kv_error *error, enum kresp_exit code)
{
    fprintf(stderr, "kresp: %s\n", error->text);
    return code;
}

/* Reads the first line of the file. */
static enum kv_status read_required_password(const char *path, char password[MAX_PASSWORD_BYTES],
                                             struct kv_error *error)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return kv_error_set_errno(error, "--requirepass-file: %s", path);
    bool read = fgets(password, MAX_PASSWORD_BYTES, file) != NULL;
    fclose(file);
    if (read)
        password[strcspn(password, "\r\n")] = '\0';
    if (!read || password[0] == '\0')
        return kv_error_set(error, KV_USAGE,
                            "--requirepass-file: %s has no password in its first "
                            "line",
                            path);
    return KV_OK;
}

/* Raises the limit of descriptors as far as the kernel lets it, since each client takes one, and
 * lowers the number of clients to it. */
static void limit_clients(struct redis_service *service)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    uint64_t wanted = service->users.max_connections + OWN_DESCRIPTORS;
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= wanted)
        return;
    service->users.max_connections =
        limit.rlim_cur > 2 * OWN_DESCRIPTORS ? limit.rlim_cur - OWN_DESCRIPTORS : OWN_DESCRIPTORS;
    log_warn("the limit of descriptors (ulimit -n) allows %llu clients",
             (unsigned long long)service->users.max_connections);
}

/* Large buffers are given back to the kernel when they are freed, so that the memory of one burst
 * of large values does not stay. */
#define MMAP_THRESHOLD_BYTES (512 * 1024)

/* Blocks the signals in all threads, because the bridge waits for them. */
static sigset_t block_bridge_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    return signals;
}

static int run_bridge(const struct kresp_options *options)
{
    static struct redis_service service = {.users = REDIS_USERS_EMPTY, .scans = SCAN_PLACES_EMPTY};
    struct bridge_settings settings = {.socket_path = options->socket_path,
                                       .socket_mode = options->socket_mode,
                                       .port = (uint16_t)options->port,
                                       .threads = options->threads};
#ifndef MQKV_SANITIZER /* the sanitizers' code makes other calls and reads other files */
    settings.sandbox = options->sandbox;
#endif
    struct kv_error error = {0};
    if (notify_open(&error) != KV_OK)
        log_warn("%s", error.text);
    enum kv_status status =
        redis_store_open(options->queue, options->timeout_ms, &service.store, &error);
    if (status != KV_OK)
        return exit_with_error(&error, status == KV_NO_SERVER || status == KV_TIMEOUT
                                           ? EXIT_NO_SERVER
                                       : status == KV_USAGE ? EXIT_USAGE
                                                            : EXIT_FAILED);
    service.password = options->password;
    service.socket_path = options->socket_path;
    service.port = options->port;
    service.users.max_connections = options->max_clients;
    service.max_request_bytes = options->request_bytes;
    service.max_pipeline = options->max_pipeline;
    service.threads = options->threads;
    service.allow_flush = options->allow_flush;
    service.start_ms = clock_realtime_ms();
    atomic_init(&service.saved_ms, service.start_ms);
    service.tracking.channels = &service.channels;
    service.link = channel_link_new(service.store, &service.tracking);
    if (!service.link) {
        redis_store_close(service.store);
        return exit_with_error(&(struct kv_error){.text = "out of memory"}, EXIT_FAILED);
    }
    limit_clients(&service);
    /* Users other than its own may connect. */
    service.users.shared = (options->socket_mode & 066) != 0 || options->port > 0;
    byte_buffer_set_budget(options->buffer_bytes, service.users.shared);
    redis_command_init();
    sigset_t signals = block_bridge_signals();
    status = bridge_run(&service, &settings, &signals, &error);
    channel_link_free(service.link);
    scan_places_free(&service.scans);
    redis_users_free(&service.users);
    redis_store_close(service.store);
    return status == KV_OK ? EXIT_DONE : exit_with_error(&error, EXIT_FAILED);
}

int main(int argc, char **argv)
{
    standard_files_fill();
    static char password[MAX_PASSWORD_BYTES];
    struct kresp_options options;
    struct kv_error error = {0};
    mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
    mapguard_install("kresp"); /* data files that are read in place may become shorter */
    enum kresp_outcome outcome = kresp_options_parse(argc, argv, &options, &error);
    if (outcome == KRESP_OPTIONS_DONE)
        return EXIT_DONE;
    if (outcome == KRESP_OPTIONS_BAD)
        return exit_with_error(&error, EXIT_USAGE);
    if (options.verbose)
        log_set_level(LOG_LEVEL_DEBUG);
    if (options.password_file &&
        read_required_password(options.password_file, password, &error) != KV_OK)
        return exit_with_error(&error, EXIT_USAGE);
    if (options.password_file)
        options.password = password;
    return run_bridge(&options);
}

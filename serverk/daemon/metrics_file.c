#include "serverk/daemon/metrics_file.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log.h"
#include "serverk/daemon/metrics.h"

#define INTERVAL_S 10

struct metrics_file {
    const struct stats_source *source;
    const char *file;
    int timer;
    bool runs; /* the thread */
    pthread_t thread;
    _Atomic bool ending;
    bool failed; /* the last time; the log has it; the thread's */
};

/* Writes the text to a file beside `file`, which then takes its place. What has that name was left
 * by a killed daemon, or put there by another user who waits for a daemon to open it: so it is
 * removed, and never opened. The file is for the collector, which is another user, whatever the
 * umask. */
static enum kv_status replace_metrics_file(const char *file, const char *text, size_t size,
                                           struct kv_error *error)
{
    char beside[PATH_MAX];
    if ((size_t)snprintf(beside, sizeof beside, "%s.new", file) >= sizeof beside)
        return kv_error_set(error, KV_USAGE, "%.100s...: the name is too long", file);
    unlink(beside);
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    FILE *stream = fd < 0 ? NULL : fdopen(fd, "w");
    if (!stream) {
        enum kv_status status = kv_error_set_errno(error, "%s: cannot be written", beside);
        if (fd >= 0)
            close(fd);
        return status;
    }
    fchmod(fd, 0644);
    bool written = fwrite(text, 1, size, stream) == size;
    written = fclose(stream) == 0 && written;
    if (written && rename(beside, file) == 0)
        return KV_OK;
    enum kv_status status = kv_error_set_errno(error, "%s: cannot be written", file);
    unlink(beside);
    return status;
}

static enum kv_status write_metrics_file(const struct metrics_file *metrics, struct kv_error *error)
{
    char *text;
    size_t size;
    if (metrics_text(metrics->source, &text, &size) != KV_OK)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory for the metrics", metrics->file);
    enum kv_status status = replace_metrics_file(metrics->file, text, size, error);
    free(text);
    return status;
}

static void *metrics_thread(void *argument)
{
    struct metrics_file *metrics = argument;
    uint64_t expirations;
    pthread_setname_np(pthread_self(), "serverk/metrics");
    for (;;) {
        ssize_t size = read(metrics->timer, &expirations, sizeof expirations);
        if (atomic_load(&metrics->ending))
            return NULL;
        if (size != (ssize_t)sizeof expirations)
            continue;
        struct kv_error error;
        bool failed = write_metrics_file(metrics, &error) != KV_OK;
        if (failed && !metrics->failed)
            log_error("--metrics: %s", error.text);
        metrics->failed = failed;
    }
}

static void metrics_set_timer(const struct metrics_file *metrics, struct timespec first)
{
    struct itimerspec times = {{INTERVAL_S, 0}, first};
    timerfd_settime(metrics->timer, 0, &times, NULL);
}

static enum kv_status start_metrics_thread(struct metrics_file *metrics, struct kv_error *error)
{
    metrics->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (metrics->timer < 0)
        return kv_error_set_errno(error, "no timer for the metrics");
    metrics_set_timer(metrics, (struct timespec){.tv_sec = INTERVAL_S});
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* mapguard */
    sigdelset(&all, SIGSYS); /* syscall_filter */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int result = pthread_create(&metrics->thread, NULL, metrics_thread, metrics);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    metrics->runs = result == 0;
    return result == 0
               ? KV_OK
               : kv_error_set_no_thread(error, result, "cannot start the thread of --metrics");
}

enum kv_status metrics_file_start(const struct stats_source *source, const char *file,
                                  struct metrics_file **result, struct kv_error *error)
{
    struct metrics_file *metrics = calloc(1, sizeof *metrics);
    if (!metrics)
        return kv_error_set(error, KV_NO_MEMORY,
                            "no memory to start with (is it limited: ulimit -v?)");
    *metrics = (struct metrics_file){.source = source, .file = file, .timer = -1};
    *result = metrics;
    enum kv_status status = write_metrics_file(metrics, error);
    return status == KV_OK ? start_metrics_thread(metrics, error) : status;
}

void metrics_file_end(struct metrics_file *metrics)
{
    if (!metrics)
        return;
    atomic_store(&metrics->ending, true);
    if (metrics->runs) {
        metrics_set_timer(metrics, (struct timespec){.tv_nsec = 1});
        pthread_join(metrics->thread, NULL);
    }
    if (metrics->timer >= 0)
        close(metrics->timer);
    unlink(metrics->file);
    free(metrics);
}

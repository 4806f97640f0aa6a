#include "serverk/daemon/metrics_file.h"

#include <fcntl.h>
#include <limits.h>
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
    bool failed; /* the last time; the log has it */
};

/* To a name beside the file, which then takes its place. It is for the collector, which is another
 * user, whatever the umask. */
static enum kv_status replace_file(const char *file, const char *text, size_t size,
                                   struct kv_error *error)
{
    char beside[PATH_MAX];
    if ((size_t)snprintf(beside, sizeof beside, "%s.new", file) >= sizeof beside)
        return kv_error_set(error, KV_USAGE, "%.100s...: the name is too long", file);
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
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

static enum kv_status write_file(const struct metrics_file *metrics, struct kv_error *error)
{
    char *text;
    size_t size;
    if (metrics_text(metrics->source, &text, &size) != KV_OK)
        return kv_error_set(error, KV_NO_MEMORY, "%s: no memory for the metrics", metrics->file);
    enum kv_status status = replace_file(metrics->file, text, size, error);
    free(text);
    return status;
}

static enum kv_status start_timer(struct metrics_file *metrics, struct kv_error *error)
{
    struct itimerspec times = {{INTERVAL_S, 0}, {INTERVAL_S, 0}};
    metrics->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (metrics->timer < 0 || timerfd_settime(metrics->timer, 0, &times, NULL) != 0)
        return kv_error_set_errno(error, "no timer for the metrics");
    return KV_OK;
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
    enum kv_status status = write_file(metrics, error);
    return status == KV_OK ? start_timer(metrics, error) : status;
}

int metrics_file_timer(const struct metrics_file *metrics)
{
    return metrics ? metrics->timer : -1;
}

void metrics_file_tick(struct metrics_file *metrics)
{
    uint64_t expirations;
    struct kv_error error;
    if (read(metrics->timer, &expirations, sizeof expirations) != (ssize_t)sizeof expirations)
        return;
    bool failed = write_file(metrics, &error) != KV_OK;
    if (failed && !metrics->failed)
        log_error("--metrics: %s", error.text);
    metrics->failed = failed;
}

void metrics_file_end(struct metrics_file *metrics)
{
    if (!metrics)
        return;
    if (metrics->timer >= 0)
        close(metrics->timer);
    unlink(metrics->file);
    free(metrics);
}

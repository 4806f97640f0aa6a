#include "clientk/program/cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "common/time/clock.h"

#define PERIOD_NS  200000000u
#define ERASE_LINE "\r\033[K"

/* Of the thread that is in the call. */
static _Thread_local struct progress *watched;
static _Thread_local const uint64_t *watched_done;

void progress_start(struct progress *progress, const char *what, bool quiet)
{
    uint64_t now_ns = clock_monotonic_ns();
    progress->shown = !quiet && isatty(STDERR_FILENO);
    progress->what = what;
    progress->start_ns = now_ns;
    atomic_store(&progress->next_ns, now_ns + PERIOD_NS);
}

void progress_show(struct progress *progress, uint64_t done, uint64_t total)
{
    if (!progress->shown)
        return;
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t next_ns = atomic_load(&progress->next_ns);
    if (now_ns < next_ns ||
        !atomic_compare_exchange_strong(&progress->next_ns, &next_ns, now_ns + PERIOD_NS))
        return;
    double seconds = (double)(now_ns - progress->start_ns) / 1e9;
    char share[48] = "";
    if (total > 0 && done <= total) {
        double left = done ? seconds * (double)(total - done) / (double)done : 0;
        snprintf(share, sizeof share, " (%.0f %%, %.0f s left)",
                 100.0 * (double)done / (double)total, left);
    }
    fprintf(stderr, ERASE_LINE "%" PRIu64 " %s%s, %.0f/s", done, progress->what, share,
            (double)done / seconds);
    fflush(stderr);
}

void progress_watch(struct progress *progress, const uint64_t *done)
{
    watched = progress;
    watched_done = done;
}

void progress_show_watched(void)
{
    if (watched)
        progress_show(watched, *watched_done, 0);
}

void progress_end(struct progress *progress)
{
    if (watched == progress)
        watched = NULL;
    if (!progress->shown)
        return;
    fputs(ERASE_LINE, stderr);
    fflush(stderr);
    progress->shown = false;
}

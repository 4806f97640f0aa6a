#include "tools/bench/bench_crew.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/progress.h"
#include "common/time/clock.h"
#include "common/report/error.h"

#define LOOK_MS 20
#define LEAD_NS \
    5000000u /* time between the signal and the start, so that all threads see the signal */

/* Shared by all processes. Only the first failure fills in `failure`. */
struct shared {
    struct bench_course course;
    atomic_bool failed;
    struct kv_error failure;
    struct bench_tally tallies[];
};

struct bench_crew {
    const struct bench_plan *plan;
    struct shared *shared;
    size_t shared_bytes;
};

/* A thread of this process and what it works on. */
struct member {
    pthread_t thread;
    struct bench_thread work;
    struct shared *shared;
};

enum kv_status bench_crew_create(const struct bench_plan *plan, struct bench_crew **crew,
                                 struct kv_error *error)
{
    struct bench_crew *made = calloc(1, sizeof *made);
    if (!made)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for the bench");
    made->plan = plan;
    made->shared_bytes =
        sizeof *made->shared + (size_t)plan->options.threads * sizeof made->shared->tallies[0];
    made->shared =
        mmap(NULL, made->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made->shared == MAP_FAILED) {
        free(made);
        return kv_error_set_errno(error, "no memory for the tallies of %" PRIu64 " threads",
                                  plan->options.threads);
    }
    *crew = made;
    return KV_OK;
}

void bench_crew_free(struct bench_crew *crew)
{
    if (!crew)
        return;
    munmap(crew->shared, crew->shared_bytes);
    free(crew);
}

const struct bench_tally *bench_crew_tally(const struct bench_crew *crew, uint64_t index)
{
    return &crew->shared->tallies[index];
}

uint64_t bench_crew_measure_ns(const struct bench_crew *crew)
{
    return atomic_load(&crew->shared->course.begin_ns) +
           (uint64_t)(crew->plan->options.warmup_seconds * 1e9);
}

static void give_up_bench(struct shared *shared, enum kv_status status, const char *sentence)
{
    if (!atomic_exchange(&shared->failed, true))
        kv_error_set(&shared->failure, status, "%s", sentence);
    bench_course_stop(&shared->course);
}

static void *run_member(void *argument)
{
    struct member *member = argument;
    struct kv_error error = {0};
    enum kv_status status = bench_thread_run(&member->work, &error);
    if (status != KV_OK)
        give_up_bench(member->shared, status, error.text);
    return NULL;
}

/* Runs the threads first..end-1 of the bench in this process to their end. */
static void run_members(struct bench_crew *crew, const struct cli_context *context, uint64_t first,
                        uint64_t end)
{
    struct shared *shared = crew->shared;
    struct kv_error error = {0};
    struct clientk *client = NULL;
    size_t count = (size_t)(end - first), started = 0;
    struct member *members = calloc(count, sizeof *members);
    if (!members) {
        give_up_bench(shared, KV_NO_MEMORY, "no memory for threads");
        return;
    }
    enum kv_status status = cli_open_client(context, true, &client, &error);
    if (status != KV_OK)
        give_up_bench(shared, status, error.text);
    for (; status == KV_OK && started < count; started++) {
        struct member *member = &members[started];
        *member =
            (struct member){.work = {crew->plan, &shared->course, &shared->tallies[first + started],
                                     client, first + started},
                            .shared = shared};
        int failure = pthread_create(&member->thread, NULL, run_member, member);
        if (failure != 0) {
            status = kv_error_set_no_thread(&error, failure, "cannot start thread %zu of %zu",
                                            started + 1, count);
            give_up_bench(shared, status, error.text);
            break;
        }
    }
    for (size_t i = 0; i < started; i++)
        pthread_join(members[i].thread, NULL);
    if (started > 0) {
        struct clientk_info info;
        clientk_info(client, &info);
        shared->tallies[first].direct_reads = info.direct_reads;
    }
    clientk_close(client);
    free(members);
}

static uint64_t first_of_process(const struct bench_options *options, uint64_t process)
{
    return options->threads * process / options->processes;
}

/* Starts a process that runs its part of the threads and ends with its parent. */
static pid_t start_process(struct bench_crew *crew, const struct cli_context *context,
                           uint64_t process)
{
    const struct bench_options *options = &crew->plan->options;
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_REFUSED);
    run_members(crew, context, first_of_process(options, process),
                first_of_process(options, process + 1));
    _exit(EXIT_DONE);
}

/* Starts the clock once all threads are ready. */
static void start_when_ready(struct bench_crew *crew)
{
    struct bench_course *course = &crew->shared->course;
    if (atomic_load(&course->begin_ns) == 0 &&
        atomic_load(&course->ready) == crew->plan->options.threads)
        bench_course_begin(course, clock_monotonic_ns() + LEAD_NS);
}

static void show_bench_progress(const struct bench_crew *crew, struct progress *progress)
{
    const struct bench_options *options = &crew->plan->options;
    uint64_t begin_ns = atomic_load(&crew->shared->course.begin_ns), done = 0;
    uint64_t now_ns = clock_monotonic_ns();
    if (!progress->shown || begin_ns == 0 || now_ns <= begin_ns)
        return;
    for (uint64_t i = 0; i < options->threads; i++)
        done += atomic_load_explicit(&crew->shared->tallies[i].running_ops, memory_order_relaxed);
    progress->start_ns = begin_ns;
    uint64_t total = options->count;
    if (total == 0) {
        double share =
            (double)(now_ns - begin_ns) / 1e9 / (options->warmup_seconds + options->seconds);
        total = share < 1 ? (uint64_t)((double)done / share) : done;
    }
    progress_show(progress, done, total);
}

static void stop_if_interrupted(struct bench_crew *crew)
{
    if (interrupt_pending())
        bench_course_stop(&crew->shared->course);
}

struct here {
    struct bench_crew *crew;
    const struct cli_context *context;
    atomic_bool done;
};

static void *run_here(void *argument)
{
    struct here *here = argument;
    run_members(here->crew, here->context, 0, here->crew->plan->options.threads);
    atomic_store(&here->done, true);
    return NULL;
}

static enum kv_status run_in_this_process(struct bench_crew *crew,
                                          const struct cli_context *context,
                                          struct progress *progress, struct kv_error *error)
{
    struct here here = {.crew = crew, .context = context};
    pthread_t thread;
    int failure = pthread_create(&thread, NULL, run_here, &here);
    if (failure != 0)
        return kv_error_set_no_thread(error, failure, "cannot start a thread");
    while (!atomic_load(&here.done)) {
        start_when_ready(crew);
        stop_if_interrupted(crew);
        show_bench_progress(crew, progress);
        clock_sleep_ms(LOOK_MS);
    }
    pthread_join(thread, NULL);
    return KV_OK;
}

/* Reaps those of pids[0..count-1] that have ended (0: reaped). Returns how many are left. */
static uint64_t reap_bench_processes(struct shared *shared, pid_t *pids, uint64_t count)
{
    uint64_t left = 0;
    for (uint64_t i = 0; i < count; i++) {
        int status = 0;
        if (pids[i] == 0)
            continue;
        if (waitpid(pids[i], &status, WNOHANG) != pids[i]) {
            left++;
            continue;
        }
        pids[i] = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_DONE)
            give_up_bench(shared, KV_IO, "a process of the bench ended unexpectedly");
    }
    return left;
}

static enum kv_status run_in_processes(struct bench_crew *crew, const struct cli_context *context,
                                       struct progress *progress, struct kv_error *error)
{
    uint64_t count = crew->plan->options.processes;
    pid_t *pids = calloc(count, sizeof *pids);
    if (!pids)
        return kv_error_set(error, KV_NO_MEMORY, "no memory for the processes");
    signal(SIGCHLD,
           SIG_DFL); /* a parent may have left SIGCHLD ignored; then waitpid finds no child */
    for (uint64_t i = 0; i < count; i++) {
        pids[i] = start_process(crew, context, i);
        if (pids[i] < 0) {
            pids[i] = 0;
            struct kv_error reason;
            kv_error_set_no_thread(&reason, errno, "cannot start process %" PRIu64 " of %" PRIu64,
                                   i + 1, count);
            give_up_bench(crew->shared, KV_LIMIT, reason.text);
            break;
        }
    }
    while (reap_bench_processes(crew->shared, pids, count) > 0) {
        start_when_ready(crew);
        stop_if_interrupted(crew);
        show_bench_progress(crew, progress);
        clock_sleep_ms(LOOK_MS);
    }
    free(pids);
    return KV_OK;
}

enum kv_status bench_crew_run(struct bench_crew *crew, const struct cli_context *context,
                              struct kv_error *error)
{
    struct progress progress;
    progress_start(&progress, "operations", false);
    enum kv_status status = crew->plan->options.processes == 1
                                ? run_in_this_process(crew, context, &progress, error)
                                : run_in_processes(crew, context, &progress, error);
    progress_end(&progress);
    if (status == KV_OK && atomic_load(&crew->shared->failed))
        return kv_error_set(error, crew->shared->failure.status, "%s", crew->shared->failure.text);
    return status;
}

#include "tools/bench/bench_thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/cli/output.h"
#include "common/time/clock.h"
#include "common/report/error.h"

#define NS_PER_SECOND   1000000000u
#define TOUCH_TTL_MS    (3600u * 1000) /* long enough not to expire during a run */
#define SLEEP_SPARED_NS 5000u          /* a shorter wait is not worth a sleep */
#define THINK_STEP_NS   100000000u     /* time between two looks at whether the bench stops */

/* An operation in flight. */
struct slot {
    struct slot *next_free;
    enum workload_kind kind;
    uint64_t number;   /* number of the key */
    uint64_t start_ns; /* intended (open loop) or actual */
    bool measured;
    char key[WORKLOAD_MAX_KEY_BYTES];
};

/* One thread at work. */
struct bench_worker {
    const struct bench_thread *thread;
    const struct bench_plan *plan;
    struct bench_tally *tally;
    struct random_state random;
    struct distribution_cursor cursor;
    uint64_t measure_ns, end_ns; /* when measuring begins; when the run ends (0: by count) */
    uint64_t quota;              /* operations to measure; 0: by time */
    uint64_t drawn;              /* how many of them were begun */
    /* Open loop: when the next message starts, and the step to the one after, whose part below a
     * nanosecond adds up in the rest. Step 0: closed loop. */
    uint64_t next_start_ns, interval_ns;
    double interval_fraction_ns, interval_rest_ns;
    struct random_state
        think_random; /* separate, so that --think does not change the operations of a seed */
    bool thinks;      /* an answer has come: the thread pauses before the next message */
    uint64_t scan_cursor;
    bool unanswered; /* the last operation found no server, or no answer in time */
    struct slot *slots;
    struct slot *free_slots;
    struct clientk_operation *operations;
    struct clientk_result *results;
    struct clientk_pipeline *pipeline; /* NULL: one message at a time */
};

static void record(struct bench_worker *worker, const struct slot *slot, enum kv_status status,
                   uint64_t now_ns)
{
    struct bench_tally *tally = worker->tally;
    atomic_store_explicit(&tally->running_ops,
                          atomic_load_explicit(&tally->running_ops, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    worker->unanswered = status != KV_OK && exit_code_of(status) == EXIT_NO_SERVER;
    if (!slot->measured)
        return;
    tally->ops++;
    tally->statuses[status < KV_STATUS_COUNT ? status : KV_IO]++;
    tally->misses += status == KV_NOT_FOUND;
    tally->last_end_ns = now_ns;
    histogram_record(&tally->latencies[slot->kind],
                     now_ns > slot->start_ns ? now_ns - slot->start_ns : 0);
}

static void verify(struct bench_worker *worker, const struct slot *slot,
                   const struct clientk_result *result)
{
    bool has_value = slot->kind == WORKLOAD_GET || (slot->kind == WORKLOAD_GETSET && result->found);
    if (!worker->plan->options.verify || !has_value || result->status != KV_OK)
        return;
    if (!workload_value_matches(worker->plan->values, slot->number, &worker->plan->sizes,
                                kv_slice(result->value.data, result->value.size)))
        worker->tally->mismatches++;
}

/* Draws the next operation into slot and *operation. A scan is not an operation of a message. */
static void draw_operation(struct bench_worker *worker, struct slot *slot,
                           struct clientk_operation *operation)
{
    static const enum clientk_opcode opcodes[WORKLOAD_KINDS] = {
        [WORKLOAD_PUT] = CLIENTK_PUT,         [WORKLOAD_GET] = CLIENTK_GET,
        [WORKLOAD_DEL] = CLIENTK_DELETE,      [WORKLOAD_EXISTS] = CLIENTK_EXISTS,
        [WORKLOAD_ADD] = CLIENTK_ADD,         [WORKLOAD_APPEND] = CLIENTK_APPEND,
        [WORKLOAD_GETSET] = CLIENTK_EXCHANGE, [WORKLOAD_TOUCH] = CLIENTK_TOUCH,
    };
    const struct bench_plan *plan = worker->plan;
    size_t key_bytes = (size_t)plan->options.key_bytes;
    slot->kind = workload_mix_draw(&plan->mix, &worker->random);
    bool has_value = slot->kind == WORKLOAD_PUT || slot->kind == WORKLOAD_APPEND ||
                     slot->kind == WORKLOAD_GETSET;
    slot->number = distribution_draw(&plan->distribution, &worker->cursor, &worker->random,
                                     slot->kind == WORKLOAD_PUT, &worker->thread->course->latest);
    bench_plan_end_key(plan, slot->key, slot->kind, slot->number);
    *operation = (struct clientk_operation){.opcode = opcodes[slot->kind],
                                            .key = kv_slice(slot->key, key_bytes)};
    if (has_value)
        operation->value = workload_value(plan->values, slot->number,
                                          workload_sizes_draw(&plan->sizes, &worker->random));
    if (slot->kind == WORKLOAD_ADD) {
        operation->delta = workload_delta(plan->options.add_most, &worker->random);
        operation->add.has_min = plan->add_min != INT64_MIN;
        operation->add.min = operation->add.has_min ? plan->add_min : 0;
    } else if (slot->kind == WORKLOAD_TOUCH) {
        operation->write.expiry_ms = clock_realtime_ms() + TOUCH_TTL_MS;
    }
}

static bool count_scanned_entry(void *context, const struct clientk_entry *entry)
{
    (void)entry;
    (*(uint64_t *)context)++;
    return true;
}

/* Reads the next page of an endless cycle through the store, or the whole store. */
static void run_scan(struct bench_worker *worker, struct slot *slot)
{
    uint64_t entries = 0;
    const struct bench_options *options = &worker->plan->options;
    struct kv_slice everything = kv_slice(NULL, 0);
    enum kv_status status =
        options->scan_atomic
            ? clientk_scan_atomic(worker->thread->client, everything, false, count_scanned_entry,
                                  &entries)
            : clientk_scan(worker->thread->client, everything, false, &worker->scan_cursor,
                           options->scan_length, count_scanned_entry, &entries);
    record(worker, slot, status, clock_monotonic_ns());
}

static void call_all(struct bench_course *course)
{
    atomic_store(&course->called, 1);
    syscall(SYS_futex, &course->called, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void bench_course_begin(struct bench_course *course, uint64_t begin_ns)
{
    atomic_store(&course->begin_ns, begin_ns);
    call_all(course);
}

void bench_course_stop(struct bench_course *course)
{
    atomic_store(&course->stop, true);
    call_all(course);
}

/* Sleeps until that time, or until Ctrl-C. */
static void sleep_until_due(uint64_t monotonic_ns)
{
    struct timespec until = {(time_t)(monotonic_ns / NS_PER_SECOND),
                             (long)(monotonic_ns % NS_PER_SECOND)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Pauses between an answer and the next message; not beyond the end of the run, and in steps after
 * which it looks whether the bench stops. */
static void think(struct bench_worker *worker)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t until_ns = now_ns + delay_draw_ns(&worker->plan->options.think, &worker->think_random);
    bool by_time = worker->quota == 0;
    if (by_time && until_ns > worker->end_ns)
        until_ns = worker->end_ns;
    while (now_ns < until_ns && !interrupt_pending() &&
           !atomic_load_explicit(&worker->thread->course->stop, memory_order_relaxed)) {
        uint64_t step_ns = until_ns - now_ns < THINK_STEP_NS ? until_ns - now_ns : THINK_STEP_NS;
        sleep_until_due(now_ns + step_ns);
        now_ns = clock_monotonic_ns();
    }
}

/* Says when the message about to be drawn starts (open loop: waits until then) and whether its
 * operations are measured. False: the run is over. */
static bool begin_message(struct bench_worker *worker, uint64_t *start_ns, bool *measured)
{
    if (worker->thinks)
        think(worker);
    worker->thinks = worker->plan->options.think.kind != DELAY_OFF;
    uint64_t now_ns = clock_monotonic_ns();
    *start_ns = now_ns;
    if (worker->interval_ns > 0) {
        *start_ns = worker->next_start_ns;
        worker->interval_rest_ns += worker->interval_fraction_ns;
        uint64_t carry = (uint64_t)worker->interval_rest_ns;
        worker->interval_rest_ns -= (double)carry;
        worker->next_start_ns += worker->interval_ns + carry;
        if (*start_ns > now_ns + SLEEP_SPARED_NS) {
            if (worker->pipeline)
                clientk_pipeline_flush(worker->pipeline);
            sleep_until_due(*start_ns);
        }
    }
    *measured = *start_ns >= worker->measure_ns;
    if (interrupt_pending() ||
        atomic_load_explicit(&worker->thread->course->stop, memory_order_relaxed))
        return false;
    if (worker->quota > 0)
        return worker->drawn < worker->quota;
    /* Operations with which an open loop is late are still executed, unless each would have to wait
     * for a server that is gone. */
    if (worker->unanswered && now_ns >= worker->end_ns)
        return false;
    return *start_ns < worker->end_ns;
}

/* Returns the number of operations of the message that begins now. */
static size_t message_operations(const struct bench_worker *worker, bool measured)
{
    uint64_t batch = worker->plan->options.batch;
    if (worker->quota > 0 && measured && worker->quota - worker->drawn < batch)
        return (size_t)(worker->quota - worker->drawn);
    return (size_t)batch;
}

static void prepare_slot(struct slot *slot, uint64_t start_ns, bool measured)
{
    slot->start_ns = start_ns;
    slot->measured = measured;
}

/* Sends one message after another. */
static void run_messages(struct bench_worker *worker)
{
    uint64_t start_ns;
    bool measured;
    while (begin_message(worker, &start_ns, &measured)) {
        size_t wanted = message_operations(worker, measured), count = 0;
        for (size_t i = 0; i < wanted; i++) {
            struct slot *slot = &worker->slots[count];
            prepare_slot(slot, start_ns, measured);
            draw_operation(worker, slot, &worker->operations[count]);
            if (slot->kind == WORKLOAD_SCAN)
                run_scan(worker, slot);
            else
                count++;
        }
        worker->drawn += measured ? wanted : 0;
        if (count == 0)
            continue;
        clientk_execute(worker->thread->client, worker->operations, count, worker->results);
        uint64_t now_ns = clock_monotonic_ns();
        for (size_t i = 0; i < count; i++) {
            verify(worker, &worker->slots[i], &worker->results[i]);
            record(worker, &worker->slots[i], worker->results[i].status, now_ns);
        }
    }
}

static void complete_bench_operation(void *context, void *tag, const struct clientk_result *result)
{
    struct bench_worker *worker = context;
    struct slot *slot = tag;
    verify(worker, slot, result);
    record(worker, slot, result->status, clock_monotonic_ns());
    slot->next_free = worker->free_slots;
    worker->free_slots = slot;
}

/* Returns the slot of a completed operation; NULL: the pipeline completed none. */
static struct slot *take_slot(struct bench_worker *worker)
{
    if (!worker->free_slots)
        clientk_pipeline_flush(worker->pipeline);
    struct slot *slot = worker->free_slots;
    if (slot)
        worker->free_slots = slot->next_free;
    return slot;
}

/* Keeps as many messages in flight as the window has. */
static void run_pipeline(struct bench_worker *worker)
{
    uint64_t start_ns;
    bool measured;
    while (begin_message(worker, &start_ns, &measured)) {
        size_t wanted = message_operations(worker, measured);
        worker->drawn += measured ? wanted : 0;
        for (size_t i = 0; i < wanted; i++) {
            struct clientk_operation operation;
            struct slot *slot = take_slot(worker);
            if (!slot)
                return;
            prepare_slot(slot, start_ns, measured);
            draw_operation(worker, slot, &operation);
            if (slot->kind == WORKLOAD_SCAN) {
                run_scan(worker, slot);
                slot->next_free = worker->free_slots;
                worker->free_slots = slot;
                continue;
            }
            enum kv_status status = clientk_pipeline_submit(worker->pipeline, &operation, slot);
            if (status != KV_OK) {
                struct clientk_result failed = {.status = status};
                complete_bench_operation(worker, slot, &failed);
            }
        }
    }
    clientk_pipeline_flush(worker->pipeline);
}

/* Makes slots for all operations that can be in flight: window messages, and one being filled. */
static bool make_slots(struct bench_worker *worker)
{
    const struct bench_options *options = &worker->plan->options;
    size_t batch = (size_t)options->batch;
    size_t count = options->window ? ((size_t)options->window + 1) * batch : batch;
    worker->slots = calloc(count, sizeof *worker->slots);
    worker->operations = calloc(batch, sizeof *worker->operations);
    worker->results = calloc(batch, sizeof *worker->results);
    if (!worker->slots || !worker->operations || !worker->results)
        return false;
    for (size_t i = 0; i < count; i++) {
        bench_plan_begin_key(worker->plan, worker->slots[i].key);
        worker->slots[i].next_free = worker->free_slots;
        worker->free_slots = &worker->slots[i];
    }
    return true;
}

/* Waits for the start. False: the bench was stopped before. */
static bool wait_for_start(struct bench_worker *worker)
{
    struct bench_course *course = worker->thread->course;
    const struct bench_options *options = &worker->plan->options;
    atomic_fetch_add(&course->ready, 1);
    while (atomic_load(&course->called) == 0 && !interrupt_pending())
        syscall(SYS_futex, &course->called, FUTEX_WAIT, 0, NULL, NULL, 0);
    uint64_t begin_ns = atomic_load(&course->begin_ns);
    if (begin_ns == 0 || atomic_load(&course->stop) || interrupt_pending())
        return false;
    sleep_until_due(begin_ns);
    worker->measure_ns = begin_ns + (uint64_t)(options->warmup_seconds * NS_PER_SECOND);
    worker->end_ns = worker->measure_ns + (uint64_t)(options->seconds * NS_PER_SECOND);
    if (options->rate > 0) {
        /* The threads are staggered: thread i starts i steps of the whole bench after thread 0. */
        double step_ns = (double)options->batch * NS_PER_SECOND / options->rate;
        double interval_ns = step_ns * (double)options->threads;
        worker->interval_ns = interval_ns < 1 ? 1 : (uint64_t)interval_ns;
        worker->interval_fraction_ns =
            interval_ns < 1 ? 0 : interval_ns - (double)worker->interval_ns;
        worker->next_start_ns = begin_ns + (uint64_t)(step_ns * (double)worker->thread->index);
    }
    return true;
}

enum kv_status bench_thread_run(const struct bench_thread *thread, struct kv_error *error)
{
    const struct bench_options *options = &thread->plan->options;
    struct bench_worker worker = {.thread = thread, .plan = thread->plan, .tally = thread->tally};
    enum kv_status status = KV_OK;
    random_seed(&worker.random, options->seed * BENCH_MAX_THREADS + thread->index);
    random_seed(&worker.think_random, ~(options->seed * BENCH_MAX_THREADS + thread->index));
    distribution_cursor_init(&worker.cursor, &thread->plan->distribution, thread->index,
                             options->threads);
    if (options->count > 0) /* the first threads take the remainder */
        worker.quota = options->count / options->threads +
                       (thread->index < options->count % options->threads ? 1 : 0);
    prctl(PR_SET_TIMERSLACK, 1); /* open loop: wake up at the right time */
    if (!make_slots(&worker))
        status = kv_error_set(error, KV_NO_MEMORY, "no memory for a thread");
    else if (options->window > 0)
        status = clientk_pipeline_open(thread->client, (uint32_t)options->window,
                                       (uint32_t)options->batch, complete_bench_operation, &worker,
                                       &worker.pipeline, error);
    bool idle = options->count > 0 && worker.quota == 0;
    if (status == KV_OK && wait_for_start(&worker) && !idle) {
        if (worker.pipeline)
            run_pipeline(&worker);
        else
            run_messages(&worker);
    }
    clientk_pipeline_close(worker.pipeline);
    for (size_t i = 0; worker.results && i < worker.plan->options.batch; i++)
        clientk_value_free(&worker.results[i].value);
    free(worker.slots);
    free(worker.operations);
    free(worker.results);
    return status;
}

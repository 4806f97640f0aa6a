/*
 * bench_thread: one client thread of a bench: draws operations, sends them closed-loop (the next
 * when the last is answered) or open-loop (each at its intended time), and counts. An open-loop
 * latency is measured from the intended start, so that an operation that waits for a slow one is
 * slow, too (no coordinated omission).
 */
#ifndef MQKV_TOOLS_BENCH_BENCH_THREAD_H
#define MQKV_TOOLS_BENCH_BENCH_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mqkv/clientk.h"
#include "tools/bench/bench_options.h"
#include "common/numbers/histogram.h"

/* What one thread counts. Only that thread writes; `running_ops` is read while it runs. */
struct bench_tally {
    _Atomic uint64_t running_ops; /* operations with the warm-up, for progress */
    uint64_t ops;                 /* measured operations */
    uint64_t misses;              /* measured operations that found no key, which is no error */
    uint64_t mismatches;          /* values that failed --verify */
    uint64_t
        direct_reads; /* reads without a message of the whole process; the first thread has them */
    uint64_t statuses[KV_STATUS_COUNT];
    uint64_t last_end_ns;
    struct histogram latencies[WORKLOAD_KINDS];
};

/* What all threads share, also across processes. */
struct bench_course {
    _Atomic uint32_t ready;    /* threads waiting for the start */
    _Atomic uint64_t begin_ns; /* CLOCK_MONOTONIC; 0: not yet known */
    atomic_bool stop;
    _Atomic uint32_t called; /* futex: 1 once the bench has begun or stopped */
    _Atomic uint64_t latest; /* distribution.h */
};

/* Makes all threads begin at begin_ns. They sleep until then: a thousand threads that looked at the
 * clock now and then would take the CPUs from those that still connect, and from the server. */
void bench_course_begin(struct bench_course *course, uint64_t begin_ns);

/* Makes all threads end soon. */
void bench_course_stop(struct bench_course *course);

struct bench_thread {
    const struct bench_plan *plan;
    struct bench_course *course;
    struct bench_tally *tally;
    struct clientk *client;
    uint64_t index; /* 0..threads-1 in the whole bench */
};

/* Waits for the start, works, and returns at the end of the time or count, or at the stop of the
 * course. KV_OK, or the error that ended it. */
enum kv_status bench_thread_run(const struct bench_thread *thread, struct kv_error *error);

#endif

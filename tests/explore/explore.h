/*
 * explore: runs the real code of the rooms under a scheduler that a seed decides. The rooms are
 * compiled as for the thread sanitizer (gcc -fsanitize=thread), so that the compiler calls a
 * function at each access to memory and each atomic operation, and are linked with the functions of
 * this folder instead of the sanitizer's: each such place is a step, after which another thread may
 * go on. Locks, condition variables, futexes, sleeps and clocks are the scheduler's as well (the
 * linker's --wrap). One schedule is one execution of a harness; the same seed gives the same one.
 *
 * A harness is a function that starts threads, waits for them, and checks what must hold. Threads
 * belong to processes, which are numbers: a process may be stopped (for ever, or for a while) or
 * killed at a step of the scheduler's choice; what its threads had stored stays.
 */
#ifndef MQKV_TESTS_EXPLORE_H
#define MQKV_TESTS_EXPLORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What a harness asks of the scheduler. */
struct explore_harness {
    const char *name;
    const char *invariant;      /* one sentence: what it checks */
    void (*run)(void);          /* the first thread, of process 0 */
    unsigned most_in_a_process; /* so many schedules share an operating-system process, since each
                                   leaves something behind; 0: as many as like */
    bool in_a_process;      /* each schedule gets an operating-system process of its own, since the
                              code keeps something beyond a schedule, or threads are left behind */
    uint32_t most_still_ms; /* how long a thread may stand still; 0: up to a minute */
    bool stores_in_order;   /* no store is delayed: the code calls functions of the C library that
                               would not see those of its own thread (strcmp, snprintf) */
    bool files_in_parts;    /* what is written to a file and read from it is copied in parts, which
                               others see one by one: those of a write in any order, as processors
                               store what the kernel copies. Of a write none may be killed */
};

/* Defines a harness; tests/explore/explore.c finds all of them. */
#define EXPLORE_HARNESS(identifier)                                        \
    extern const struct explore_harness identifier;                        \
    static const struct explore_harness *const identifier##_pointer        \
        __attribute__((used, section("explore_harnesses"))) = &identifier; \
    const struct explore_harness identifier

/* Starts a thread of `process` that calls run(argument). */
void explore_thread(unsigned process, void (*run)(void *), void *argument);

/* Waits until every thread that explore_thread started has returned, or will never go on. */
void explore_wait_for_threads(void);

/* The same for a thread that explore_wait_for_threads does not wait for, and wait for those too. */
void explore_other_thread(unsigned process, void (*run)(void *), void *argument);
void explore_wait_for_all(void);

void explore_sleep_ms(uint32_t ms);

/* Sleeps until is_ready(what) holds. It is asked between steps, and takes none. */
void explore_wait_until(bool (*is_ready)(const void *what), const void *what);

/* Whether the timer (timerfd) was set. */
bool explore_timer_runs(int timer);

/* Sends a signal that ends, to all who have a descriptor for signals (signalfd). */
void explore_ask_to_end(void);

/* How many ends of stream sockets are open, or wait to be accepted. */
unsigned explore_open_sockets(void);

/* From here on each process has a pid, record locks of its own, and an end that its pidfds show;
 * and the uid that it is given (else the real one). */
void explore_simulate_processes(void);
pid_t explore_pid(unsigned process);
void explore_set_uid(unsigned process, uid_t uid);

/* The name of the nth queue whose name begins so; false: there is none. */
bool explore_find_queue(const char *prefix, unsigned nth, char *name);

/* The process that runs has no descriptors and locks any more, as one that has ended. Its thread
 * may only return. */
void explore_exit(void);

/* From here on, until it is called again, steps are no places at which another thread goes on, nor
 * are they counted: for what is set up and taken down, and what a harness notes. Who waits still
 * lets others go on, and it holds for them as well: a thread that asks for it alone takes it back
 * before it waits. Returns what it was before. */
bool explore_quietly(bool quiet);

/* The same, except that others may go on between the parts in which it copies what it writes to a
 * file (files_in_parts). One thread at a time asks for it. */
void explore_quietly_but_for_files(bool quiet);

/* The scheduler may kill the process, or stop it for ever, at a step of its choice, from now on. A
 * harness that calls neither keeps all of its processes. */
void explore_may_kill(unsigned process);
void explore_may_stop(unsigned process);

/* Kills it now. */
void explore_kill(unsigned process);

/* Whether the process was killed or stopped. */
bool explore_is_gone(unsigned process);

/* The static variables of the rooms get their first values: what comes next is another process's.
 * Nobody who lives may rely on them. */
void explore_forget_statics(void);

/* Whether a part of what the harness could do is done: always, until something is found, which then
 * is looked for with fewer parts. Numbers below EXPLORE_PARTS. */
#define EXPLORE_PARTS 256u
bool explore_has_part(unsigned part);

/* Counts what the harness tries beside schedules; the sum is told with its noun, of which a harness
 * has one. */
void explore_count(uint64_t more, const char *noun);

/* Notes a line of what happens, which is told of a schedule that finds something. */
void explore_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Whether time passes only as threads take steps and sleep: no thread stands still, and the clock
 * does not jump while some could go on. */
bool explore_keeps_time(void);

/* From now on the file system is one that writes a block anew at another place, or not. */
void explore_blocks_move(bool blocks_move);

/* 0 .. bound - 1, by the seed. */
uint32_t explore_random(uint32_t bound);

/* The clock of the schedule, in nanoseconds; it moves with each step, and jumps when all threads
 * sleep. */
uint64_t explore_clock_ns(void);

/* How many steps the threads have taken, all together: of one that waits without sleeping, many. */
uint64_t explore_steps(void);

/* Calls run(argument) in a copy of all that there is (a child of the operating system's), which is
 * gone then: for what may come of one moment in many ways. What it finds, this schedule has
 * found. */
void explore_branch(void (*run)(void *), void *argument);

/* Ends the schedule as one that found something. */
void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#define EXPLORE_CHECK(condition, ...)  \
    do {                               \
        if (!(condition))              \
            explore_fail(__VA_ARGS__); \
    } while (0)

#endif

#include "tests/explore/seeded_schedule.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/explore/descriptors.h"
#include "tests/explore/explore.h"
#include "tests/explore/fiber.h"
#include "tests/explore/kernel_calls.h"

#define STEP_NS UINT64_C(10)

/* How far the clock jumps while somebody can go on. */
#define JUMP_MAX_NS UINT64_C(10000000000)

/* A thread that takes more steps in a row while others could go on is taken for one that waits by
 * looking, and falls below them. */
#define STEPS_IN_A_ROW UINT64_C(20000)

/* Threads that wait by yielding do so until somebody's time has come. */
#define YIELDS_PER_JUMP 256u

/* A schedule that is longer does not come to an end. */
#define STEPS_MAX UINT64_C(50000000)

enum state { READY, WAITING, ENDED, KILLED };

struct thread {
    struct fiber *fiber;
    enum state state;
    unsigned process;
    uint64_t steps;
    int64_t priority;
    bool (*is_ready)(const void *);
    const void *what;
    uint64_t until_ns;
    uint64_t still_until_ns; /* it stands still, whatever it could do */
    const void *waits_at;
    bool timed_out;
    bool is_awaited; /* by explore_wait_for_threads */
    bool is_joined;
    void (*run)(void *);
    void *argument;
};

_Static_assert(SCHEDULE_MAX_THREADS == FIBERS_MAX, "each thread is a fiber");

static struct {
    bool running;
    bool is_quiet;
    bool files_are_loud;  /* though it is quiet */
    bool has_stood_still; /* some thread */
    const struct schedule_plan *plan;
    struct schedule_result *result;
    struct fiber *outside;
    struct thread threads[FIBERS_MAX];
    unsigned count;
    unsigned current;
    uint64_t random; /* for decisions */
    uint64_t drawn;  /* for the code: the same, whatever is decided */
    uint64_t clock_ns;
    uint64_t steps;
    uint64_t yields;
    uint64_t next_event; /* of steps: when to decide */
    uint64_t in_a_row_from;
    uint64_t changes[16]; /* PCT: steps, rising */
    unsigned change_count, next_change;
    uint64_t fault_at;
    unsigned mean;  /* RANDOM: steps between decisions */
    int64_t lowest; /* of all priorities that were given */
    bool is_killable[SCHEDULE_MAX_PROCESSES], is_stoppable[SCHEDULE_MAX_PROCESSES];
    bool is_gone[SCHEDULE_MAX_PROCESSES];
} now;

/* splitmix64 (Steele, Lea, Flood, OOPSLA 2014) */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t decide(void)
{
    return draw(&now.random);
}

uint64_t schedule_random(void)
{
    return draw(&now.drawn);
}

bool schedule_is_running(void)
{
    return now.running;
}

bool schedule_delays_stores(void)
{
    return now.running && now.plan->delays_stores;
}

bool schedule_has_files_in_parts(void)
{
    return now.running && now.plan->files_in_parts;
}

unsigned schedule_thread(void)
{
    return now.current;
}

unsigned schedule_process(void)
{
    return now.threads[now.current].process;
}

pthread_t schedule_pthread(unsigned thread)
{
    return fiber_pthread(now.threads[thread].fiber);
}

unsigned schedule_thread_of(pthread_t pthread)
{
    for (unsigned i = 0; i < now.count; i++)
        if (pthread_equal(fiber_pthread(now.threads[i].fiber), pthread))
            return i;
    return FIBERS_MAX;
}

bool schedule_has_ended(unsigned thread)
{
    return thread < now.count && now.threads[thread].state >= ENDED;
}

bool schedule_is_killed(unsigned thread)
{
    return thread < now.count && now.threads[thread].state == KILLED;
}

uint64_t schedule_clock_ns(void)
{
    return now.clock_ns;
}

uint64_t schedule_cpu_ns(void)
{
    return now.threads[now.current].steps * STEP_NS;
}

static void leave(void)
{
    now.running = false;
    fiber_switch(now.threads[now.current].fiber, now.outside);
    abort();
}

void schedule_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (!now.running) {
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        abort();
    }
    vsnprintf(now.result->text, sizeof now.result->text, format, arguments);
    va_end(arguments);
    now.result->failed = true;
    leave();
    abort();
}

/* Deciding ------------------------------------------------------------------------------------- */

static void note(enum decision_kind kind, unsigned next, bool waits, const void *place)
{
    struct schedule_result *result = now.result;
    if (result->decision_count == SCHEDULE_MAX_DECISIONS) {
        result->has_too_many = true;
        return;
    }
    result->decisions[result->decision_count++] =
        (struct decision){.thread = now.current,
                          .kind = kind,
                          .at = now.threads[now.current].steps,
                          .next = next,
                          .waits = waits,
                          .place = place};
}

static bool can_go_on(struct thread *thread)
{
    if (thread->still_until_ns > now.clock_ns)
        return false;
    if (thread->state == WAITING) {
        bool was_quiet = now.is_quiet;
        uint64_t clock_ns = now.clock_ns;
        now.is_quiet = true; /* the harness's own question is no step, and takes no time: somebody's
                                may be over, who was asked before */
        bool is_ready = thread->is_ready(thread->what);
        now.is_quiet = was_quiet;
        now.clock_ns = clock_ns;
        if (is_ready) {
            thread->state = READY;
            thread->timed_out = false;
        } else if (thread->until_ns <= now.clock_ns) {
            thread->state = READY;
            thread->timed_out = true;
        }
    }
    return thread->state == READY;
}

static uint64_t next_timeout_ns(void)
{
    uint64_t next_ns = kernel_next_timer_ns();
    for (unsigned i = 0; i < now.count; i++) {
        const struct thread *thread = &now.threads[i];
        if (thread->state < ENDED && thread->still_until_ns > now.clock_ns) {
            if (thread->still_until_ns < next_ns)
                next_ns = thread->still_until_ns;
        } else if (thread->state == WAITING && thread->until_ns < next_ns) {
            next_ns = thread->until_ns;
        }
    }
    return next_ns;
}

/* False: nobody sleeps with a limit that is no further away. */
static bool jump_the_clock(uint64_t at_most_ns)
{
    uint64_t next_ns = next_timeout_ns();
    if (next_ns == UINT64_MAX || (next_ns > now.clock_ns && next_ns - now.clock_ns > at_most_ns))
        return false;
    if (now.clock_ns < next_ns)
        now.clock_ns = next_ns;
    return true;
}

/* The threads that can go on, of which there is one at least; or the schedule has found that there
 * is none. */
static unsigned find_ready(unsigned ready[FIBERS_MAX])
{
    unsigned count = 0;
    for (;;) {
        for (unsigned i = 0; i < now.count; i++)
            if (can_go_on(&now.threads[i]))
                ready[count++] = i;
        if (count > 0)
            return count;
        if (!jump_the_clock(UINT64_MAX)) {
            char text[SCHEDULE_TEXT_BYTES - 32] = "";
            size_t at = 0;
            for (unsigned i = 0; i < now.count && at + 8 < sizeof text; i++)
                if (now.threads[i].state == WAITING) {
                    now.result->waits_at[i] = now.threads[i].waits_at;
                    at += (size_t)snprintf(text + at, sizeof text - at, " %u", i);
                }
            kernel_describe(text, sizeof text);
            schedule_fail("all threads wait for ever:%s", text);
        }
    }
}

static unsigned highest(const unsigned *ready, unsigned count)
{
    unsigned best = ready[0];
    for (unsigned i = 1; i < count; i++)
        if (now.threads[ready[i]].priority > now.threads[best].priority)
            best = ready[i];
    return best;
}

/* STRATEGY_LIST: whether the decision is the current thread's at this step. */
static bool is_due(const struct decision *decision)
{
    return decision->thread == now.current && decision->at == now.threads[now.current].steps;
}

static const struct decision *listed_hand_over(bool waits)
{
    for (size_t i = 0; i < now.plan->list_count; i++)
        if (is_due(&now.plan->list[i]) && now.plan->list[i].kind == DECIDED_THREAD &&
            now.plan->list[i].waits == waits)
            return &now.plan->list[i];
    return NULL;
}

static unsigned choose(const unsigned *ready, unsigned count, bool waits, bool must_leave)
{
    switch (now.plan->strategy) {
    case STRATEGY_PCT:
        return highest(ready, count);
    case STRATEGY_RANDOM:
        return ready[decide() % count];
    case STRATEGY_LIST:
        break;
    }
    const struct decision *decision = listed_hand_over(waits);
    for (unsigned i = 0; decision && i < count; i++)
        if (ready[i] == decision->next)
            return decision->next;
    if (!must_leave)
        return now.current;
    /* The one that waits in turn: it has run least. */
    unsigned best = ready[0];
    for (unsigned i = 1; i < count; i++)
        if (now.threads[ready[i]].priority > now.threads[best].priority)
            best = ready[i];
    return best;
}

static void plan_next_event(void)
{
    uint64_t next = now.in_a_row_from + STEPS_IN_A_ROW;
    switch (now.plan->strategy) {
    case STRATEGY_PCT:
        if (now.next_change < now.change_count && now.changes[now.next_change] < next)
            next = now.changes[now.next_change];
        break;
    case STRATEGY_RANDOM: {
        uint64_t steps = 1 + decide() % (2 * now.mean);
        if (now.steps + steps < next)
            next = now.steps + steps;
        break;
    }
    case STRATEGY_LIST: {
        /* The next step of this thread of which the list knows. */
        uint64_t own = now.threads[now.current].steps;
        for (size_t i = 0; i < now.plan->list_count; i++) {
            const struct decision *decision = &now.plan->list[i];
            if (decision->thread == now.current && decision->at > own &&
                now.steps + (decision->at - own) < next)
                next = now.steps + (decision->at - own);
        }
        break;
    }
    }
    if (now.fault_at > now.steps && now.fault_at < next)
        next = now.fault_at;
    now.next_event = next > now.steps ? next : now.steps + 1;
}

static void go_on_with(unsigned next)
{
    unsigned before = now.current;
    now.in_a_row_from = now.steps;
    if (next != before) {
        now.current = next;
        plan_next_event();
        fiber_switch(now.threads[before].fiber, now.threads[next].fiber);
    } else {
        plan_next_event();
    }
}

/* The thread that runs stops running, or may. waits: it waits for something, or steps back; else
 * this is an event. must_leave: it has to stop, if another can go on. */
static void hand_over(bool waits, bool must_leave, const void *place)
{
    unsigned ready[FIBERS_MAX];
    unsigned count = find_ready(ready);
    unsigned next = choose(ready, count, waits, must_leave);
    if (next != now.current || (must_leave && count > 1))
        note(DECIDED_THREAD, next, waits, place);
    go_on_with(next);
}

static void lower_the_current(void)
{
    now.threads[now.current].priority = --now.lowest;
}

/* A thread that runs may stand still, as one does whose process is stopped for a while: what others
 * wait for with a limit comes meanwhile. */
static const uint64_t still_ns[] = {UINT64_C(1000000), UINT64_C(100000000), UINT64_C(3000000000),
                                    UINT64_C(60000000000)};

static void stand_still(unsigned how_long, const void *place)
{
    note(DECIDED_STILL, how_long, false, place);
    now.has_stood_still = true;
    now.threads[now.current].still_until_ns = now.clock_ns + still_ns[how_long];
}

static void maybe_stand_still(const void *place)
{
    unsigned how_long = (unsigned)(decide() % (sizeof still_ns / sizeof *still_ns));
    uint64_t most_ns = now.plan->most_still_ms * UINT64_C(1000000);
    if (now.current != 0 && decide() % 3 == 0 && (most_ns == 0 || still_ns[how_long] <= most_ns))
        stand_still(how_long, place);
}

/* Faults --------------------------------------------------------------------------------------- */

static void lose(unsigned process, enum decision_kind kind, const void *place)
{
    note(kind, process, false, place);
    now.is_gone[process] = true;
    if (kind == DECIDED_KILL)
        descriptors_close(process);
    for (unsigned i = 0; i < now.count; i++)
        if (now.threads[i].process == process && now.threads[i].state < ENDED) {
            delayed_stores_flush(i);
            now.threads[i].state = KILLED;
        }
}

static void follow_the_list(const void *place)
{
    for (size_t i = 0; i < now.plan->list_count; i++) {
        const struct decision *decision = &now.plan->list[i];
        if (!is_due(decision) || decision->kind == DECIDED_THREAD)
            continue;
        if (decision->kind == DECIDED_CLOCK) {
            if (jump_the_clock(JUMP_MAX_NS))
                note(DECIDED_CLOCK, 0, false, place);
        } else if (decision->kind == DECIDED_STILL) {
            stand_still(decision->next, place);
        } else if (decision->kind == DECIDED_STORE) {
            if (delayed_stores_show(decision->next % FIBERS_MAX, decision->next / FIBERS_MAX))
                note(DECIDED_STORE, decision->next, false, place);
        } else {
            lose(decision->next, decision->kind, place);
        }
    }
}

static void show_some_stores(const void *place)
{
    for (unsigned i = 0; i < now.count; i++) {
        unsigned count = delayed_stores_count(i);
        unsigned index = count > 0 && decide() % 4 == 0 ? (unsigned)(decide() % count) : count;
        if (index < count && delayed_stores_show(i, index))
            note(DECIDED_STORE, i + FIBERS_MAX * index, false, place);
    }
}

static void maybe_lose_a_process(const void *place)
{
    if (now.steps < now.fault_at || now.fault_at == 0)
        return;
    now.fault_at = 0;
    unsigned process = (unsigned)(decide() % SCHEDULE_MAX_PROCESSES);
    for (unsigned i = 0; i < SCHEDULE_MAX_PROCESSES; i++) {
        unsigned candidate = (process + i) % SCHEDULE_MAX_PROCESSES;
        if (now.is_gone[candidate])
            continue;
        if (now.is_killable[candidate] || now.is_stoppable[candidate]) {
            lose(candidate, now.is_killable[candidate] ? DECIDED_KILL : DECIDED_STOP, place);
            return;
        }
    }
}

static void may_lose(bool *may, unsigned process)
{
    may[process] = true;
    if (now.plan->strategy == STRATEGY_LIST)
        return;
    /* Half of the schedules have a fault. */
    if (now.fault_at == 0 && decide() % 2 == 0) {
        now.fault_at = now.steps + 1 + decide() % (now.plan->length + 1);
        plan_next_event();
    }
}

void schedule_lose_own(const void *place)
{
    lose(schedule_process(), DECIDED_KILL, place);
    hand_over(false, true, place);
    abort();
}

void explore_may_kill(unsigned process)
{
    may_lose(now.is_killable, process);
}

void explore_may_stop(unsigned process)
{
    may_lose(now.is_stoppable, process);
}

void explore_kill(unsigned process)
{
    lose(process, DECIDED_KILL, __builtin_return_address(0));
}

bool explore_is_gone(unsigned process)
{
    return now.is_gone[process];
}

/* Steps ---------------------------------------------------------------------------------------- */

static void event(const void *place)
{
    if (now.steps > STEPS_MAX)
        schedule_fail("the schedule does not come to an end");
    if (now.plan->strategy == STRATEGY_LIST)
        follow_the_list(place);
    else
        maybe_lose_a_process(place);
    if (now.threads[now.current].state == KILLED) {
        hand_over(false, true, place);
        return;
    }
    bool in_vain = now.steps >= now.in_a_row_from + STEPS_IN_A_ROW;
    if (now.plan->strategy == STRATEGY_PCT) {
        if (in_vain)
            lower_the_current();
        while (now.next_change < now.change_count && now.changes[now.next_change] <= now.steps) {
            now.next_change++;
            lower_the_current();
            maybe_stand_still(place);
        }
    }
    if (now.plan->strategy == STRATEGY_RANDOM && decide() % 16 == 0 && jump_the_clock(JUMP_MAX_NS))
        note(DECIDED_CLOCK, 0, false, place);
    if (now.plan->delays_stores && now.plan->strategy != STRATEGY_LIST)
        show_some_stores(place);
    if (in_vain && now.plan->strategy == STRATEGY_LIST)
        lower_the_current();
    hand_over(false, in_vain, place);
}

void schedule_step(const void *place)
{
    if (!now.running)
        return;
    now.clock_ns += STEP_NS;
    if (now.is_quiet)
        return;
    now.threads[now.current].steps++;
    if (++now.steps >= now.next_event)
        event(place);
}

void schedule_note_wake(void)
{
    if (now.running && now.plan->strategy == STRATEGY_PCT)
        now.next_event = now.steps + 1;
}

void schedule_yield(const void *place)
{
    if (!now.running)
        return;
    now.threads[now.current].steps++;
    now.steps++;
    now.clock_ns += STEP_NS;
    if (now.plan->delays_stores)
        delayed_stores_flush(now.current);
    lower_the_current();
    if (now.steps > STEPS_MAX)
        schedule_fail("the schedule does not come to an end");
    if (++now.yields % YIELDS_PER_JUMP == 0)
        (void)jump_the_clock(UINT64_MAX);
    hand_over(true, true, place);
}

bool schedule_wait(bool (*is_ready)(const void *what), const void *what, uint64_t until_ns,
                   const void *place)
{
    if (!now.running)
        return true;
    struct thread *thread = &now.threads[now.current];
    schedule_step(place);
    if (now.plan->delays_stores)
        delayed_stores_flush(now.current);
    thread->is_ready = is_ready;
    thread->what = what;
    thread->waits_at = place;
    thread->until_ns = until_ns;
    thread->state = WAITING;
    hand_over(true, true, place);
    return !thread->timed_out;
}

static void run_thread(void *argument)
{
    struct thread *thread = argument;
    thread_values_begin();
    thread->run(thread->argument);
    thread_values_end();
    schedule_step(NULL);
    if (now.plan->delays_stores)
        delayed_stores_flush(now.current);
    thread->state = ENDED;
    thread->steps++;
    hand_over(true, true, NULL);
    abort();
}

void schedule_note_joined(unsigned thread)
{
    now.threads[thread].is_joined = true;
}

/* When there are no more numbers, that of a thread that nobody asks for any more, whose steps are
 * counted on. */
static unsigned free_number(void)
{
    if (now.count < FIBERS_MAX)
        return now.count++;
    for (unsigned i = 1; i < FIBERS_MAX; i++) {
        const struct thread *thread = &now.threads[i];
        if (i != now.current &&
            (thread->state == KILLED ||
             (thread->state == ENDED && (thread->is_joined || thread->is_awaited))))
            return i;
    }
    schedule_fail("a schedule has at most %u threads at a time", FIBERS_MAX);
}

unsigned schedule_spawn(unsigned process, void (*run)(void *), void *argument)
{
    unsigned number = free_number();
    struct thread *thread = &now.threads[number];
    *thread = (struct thread){.state = READY,
                              .process = process,
                              .steps = thread->steps,
                              .run = run,
                              .argument = argument};
    /* Above all change points, in a random order; the others' order is left as it is. */
    thread->priority = (int64_t)(decide() % 1000000) + 1;
    if (now.plan->strategy == STRATEGY_LIST)
        thread->priority = -(int64_t)number;
    thread->fiber = fiber_prepare(number, run_thread, thread);
    schedule_note_wake();
    return number;
}

/* A thread sees what was stored before it was started, as after pthread_create. */
static void show_stores(void)
{
    if (now.plan->delays_stores)
        delayed_stores_flush(now.current);
}

void explore_thread(unsigned process, void (*run)(void *), void *argument)
{
    schedule_step(__builtin_return_address(0));
    show_stores();
    now.threads[schedule_spawn(process, run, argument)].is_awaited = true;
    schedule_step(__builtin_return_address(0));
}

void explore_other_thread(unsigned process, void (*run)(void *), void *argument)
{
    show_stores();
    schedule_spawn(process, run, argument);
    schedule_step(__builtin_return_address(0));
}

static bool never(const void *what)
{
    (void)what;
    return false;
}

void explore_sleep_ms(uint32_t ms)
{
    schedule_wait(never, NULL, now.clock_ns + ms * UINT64_C(1000000), __builtin_return_address(0));
}

void explore_wait_until(bool (*is_ready)(const void *what), const void *what)
{
    schedule_wait(is_ready, what, UINT64_MAX, __builtin_return_address(0));
}

static bool are_all_gone(const void *self)
{
    for (unsigned i = 0; i < now.count; i++)
        if (&now.threads[i] != self && now.threads[i].state < ENDED)
            return false;
    return true;
}

void explore_wait_for_all(void)
{
    schedule_wait(are_all_gone, &now.threads[now.current], UINT64_MAX, __builtin_return_address(0));
}

static bool are_awaited_gone(const void *self)
{
    for (unsigned i = 0; i < now.count; i++)
        if (&now.threads[i] != self && now.threads[i].is_awaited && now.threads[i].state < ENDED)
            return false;
    return true;
}

void explore_quietly_but_for_files(bool quiet)
{
    now.files_are_loud = quiet;
    now.is_quiet = quiet;
}

void schedule_file_step(const void *place)
{
    bool quiet = now.is_quiet;
    now.is_quiet = quiet && !now.files_are_loud;
    if (!now.is_quiet && now.running && schedule_random() % 4 == 0)
        schedule_yield(place);
    else
        schedule_step(place);
    now.is_quiet = quiet;
}

bool explore_quietly(bool quiet)
{
    bool before = now.is_quiet;
    now.is_quiet = quiet;
    return before;
}

void explore_wait_for_threads(void)
{
    schedule_wait(are_awaited_gone, &now.threads[now.current], UINT64_MAX,
                  __builtin_return_address(0));
}

/* The sections of the rooms' objects (explore.mk), and what they were at the beginning. */
extern char __start_room_data[], __stop_room_data[], __start_room_bss[], __stop_room_bss[];
static char *first_data;

__attribute__((constructor)) static void keep_first_data(void)
{
    size_t bytes = (size_t)(__stop_room_data - __start_room_data);
    first_data = malloc(bytes);
    if (first_data)
        memcpy(first_data, __start_room_data, bytes);
}

void explore_forget_statics(void)
{
    memcpy(__start_room_data, first_data, (size_t)(__stop_room_data - __start_room_data));
    memset(__start_room_bss, 0, (size_t)(__stop_room_bss - __start_room_bss));
    thread_values_forget();
}

uint32_t explore_random(uint32_t bound)
{
    return (uint32_t)(schedule_random() % bound);
}

uint64_t explore_clock_ns(void)
{
    return now.clock_ns;
}

uint64_t explore_steps(void)
{
    return now.steps;
}

bool explore_has_part(unsigned part)
{
    return part >= EXPLORE_PARTS || !now.plan->lacks_part[part];
}

void explore_note(const char *format, ...)
{
    struct schedule_result *result = now.result;
    size_t room = sizeof result->story - result->story_bytes;
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(result->story + result->story_bytes, room, format, arguments);
    va_end(arguments);
    if (bytes > 0 && (size_t)bytes + 1 < room) {
        result->story_bytes += (size_t)bytes;
        result->story[result->story_bytes++] = '\n';
    }
    if (result->story_bytes < sizeof result->story)
        result->story[result->story_bytes] = '\0';
}

bool explore_keeps_time(void)
{
    return now.plan->strategy == STRATEGY_PCT && !now.has_stood_still;
}

void explore_fail(const char *format, ...)
{
    char text[SCHEDULE_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    schedule_fail("%s", text);
}

/* A schedule ----------------------------------------------------------------------------------- */

static void run_first(void *argument)
{
    void (*run)(void) = *(void (**)(void))argument;
    run();
    for (unsigned i = 1; i < now.count; i++)
        if (now.threads[i].state < ENDED)
            schedule_fail("thread %u of process %u was left running", i, now.threads[i].process);
    leave();
}

static int compare_steps(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void schedule_run(const struct schedule_plan *plan, void (*run)(void),
                  struct schedule_result *result)
{
    memset(&now, 0, sizeof now);
    result->failed = false;
    result->text[0] = '\0';
    result->decision_count = 0;
    result->story[0] = '\0';
    result->story_bytes = 0;
    result->has_too_many = false;
    memset(result->waits_at, 0, sizeof result->waits_at);
    now.plan = plan;
    now.result = result;
    now.random = plan->seed;
    now.drawn = ~plan->seed;
    now.clock_ns = UINT64_C(1000000000000);
    now.outside = fiber_of_process();
    static const unsigned means[] = {1, 3, 10, 40, 200};
    now.mean = means[decide() % (sizeof means / sizeof *means)];
    if (plan->strategy == STRATEGY_PCT) {
        now.change_count = plan->depth > 0 ? plan->depth - 1 : 0;
        for (unsigned i = 0; i < now.change_count; i++)
            now.changes[i] = 1 + decide() % (plan->length + 1);
        qsort(now.changes, now.change_count, sizeof *now.changes, compare_steps);
    }
    delayed_stores_reset();
    descriptors_reset();
    now.count = 1;
    now.threads[0] = (struct thread){.state = READY, .priority = 500000};
    now.threads[0].fiber = fiber_prepare(0, run_first, &run);
    plan_next_event();
    now.running = true;
    fiber_switch(now.outside, now.threads[0].fiber);
    now.running = false;
    descriptors_reset();
    result->steps = now.steps;
}

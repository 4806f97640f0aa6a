#include "bridges/kresp/session/transaction_run.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/redis_error.h"
#include "bridges/kresp/session/transaction_view.h"

#define STEPS_MAX CLIENTK_MAX_TRANSACTION_STEPS

/* After so many tries others have changed the keys too often; and commands that deal with more than
 * this would take the thread from its other connections for more than some 100 ms. */
#define TRIES_MAX    100u
#define WORK_MOST_MB 1024u
#define EARLY_TRIES  3u  /* those after them wait a little first */
#define FEW_WORDS    16u /* of a queued command, for which no memory is taken */
#define NOTHING_DONE "; nothing was executed"

/* More values than this a command alone reads in pieces, as its client takes them. */
#define READ_ALONE_BYTES ((size_t)4 << 20)

enum run_end {
    RUN_GOES_ON,
    RUN_DONE,
    RUN_CONFLICT,  /* a key that was read has changed: again */
    RUN_WATCHED,   /* a watched key has changed, or a condition does not hold */
    RUN_TOO_LARGE, /* more than one message holds */
    RUN_TOO_MUCH,  /* for one turn of the thread */
    RUN_NO_MEMORY,
    RUN_ABANDONED, /* by its script: `reason` */
    RUN_APART,     /* the keys are in several shards of a cluster; `refusal` says what to do */
    RUN_REFUSED,   /* a cluster does not do it for another reason, `refusal` */
    RUN_FAILED     /* `status` says why */
};

/* What a command has done beside the store. */
struct transaction_effect {
    struct transaction_effect *next;
    void (*end)(void *what, bool undo);
    void *what;
};

struct transaction_run {
    struct redis_job *job;                 /* EXEC, or the command that runs alone */
    const struct redis_transaction *queue; /* NULL: a command that runs alone */
    struct batch_memory memory;
    struct transaction_view view;
    size_t reply_mark;
    int protocol; /* as it was: HELLO changes it */
    enum kv_status status;
    enum run_end script_end; /* what a command of a script came to */
    const char *reason;
    struct script_start start; /* 0: not asked for yet, as `seed` */
    uint64_t seen_ms;          /* the clock at the last look */
    uint64_t seed;
    const struct kv_slice *keys; /* of the script whose command is executed; NULL: none is */
    size_t key_count;
    bool has_read_keys; /* those that the script names were read, or are not worth it */
    struct transaction_effect *effects; /* the last one first */
    bool has_figures;
    struct redis_store_figures figures; /* of the store, as they were when they were asked for */
    char refusal[256];
    size_t guard_count, step_count; /* of one message: */
    struct clientk_guard guards[STEPS_MAX];
    struct clientk_operation steps[STEPS_MAX];
    struct clientk_result results[STEPS_MAX];
};

/* Takes back what was replied since the run began. */
static void rewind_reply(struct transaction_run *run)
{
    struct resp_reply *reply = redis_job_reply(run->job);
    reply->bytes.end = reply->bytes.start + run->reply_mark;
    reply->protocol = run->protocol;
}

/* The messages --------------------------------------------------------------------------------- */

/* Returns true if one key is read and nothing else: that needs no transaction, and no message where
 * the store's files can be read directly. */
static bool is_lone_read(const struct transaction_run *run)
{
    return run->guard_count == 0 && run->step_count == 1 &&
           (run->steps[0].opcode == CLIENTK_GET || run->steps[0].opcode == CLIENTK_EXISTS);
}

/* A cluster does not do such a transaction, and says why. */
static enum run_end end_of_refused(struct transaction_run *run, enum run_end end)
{
    snprintf(run->refusal, sizeof run->refusal, "%s", redis_store_last_error());
    return end;
}

static enum run_end ask_transaction_of_store(struct transaction_run *run,
                                             struct clientk_transacted *transacted)
{
    const struct clientk_transaction transaction = {.guards = run->guards,
                                                    .guard_count = run->guard_count,
                                                    .then = run->steps,
                                                    .then_count = run->step_count};
    *transacted = (struct clientk_transacted){.outcome = CLIENTK_FAILED};
    for (size_t i = 0; i < run->step_count; i++)
        run->results[i] = (struct clientk_result){.status = KV_OK};
    struct redis_store *store = run->job->session->service->store;
    if (is_lone_read(run)) {
        redis_store_execute(store, run->steps, 1, run->results);
        run->status = KV_OK;
    } else {
        run->status = redis_store_transact(store, &transaction, run->results, transacted);
    }
    switch (run->status) {
    case KV_OK:
        return RUN_GOES_ON;
    case KV_VALUE_TOO_BIG:
    case KV_BUFFER_TOO_SMALL:
    case KV_LIMIT:
        return RUN_TOO_LARGE;
    case KV_APART:
        return end_of_refused(run, RUN_APART);
    case KV_UNSUPPORTED: /* without a cluster: the server is too old for any */
        return redis_store_is_in_cluster(store) ? end_of_refused(run, RUN_REFUSED) : RUN_FAILED;
    default:
        return RUN_FAILED;
    }
}

/* False: there are more than a transaction has. */
static bool add_guard(struct transaction_run *run, struct kv_slice key, uint64_t version)
{
    if (run->guard_count + run->step_count == STEPS_MAX)
        return false;
    run->guards[run->guard_count++] =
        (struct clientk_guard){.kind = CLIENTK_GUARD_VERSION, .key = key, .version = version};
    return true;
}

static uint64_t version_before(const struct viewed_key *key)
{
    return key->before.status == KV_OK ? key->before.value.version : 0;
}

static bool has_needs(const struct transaction_view *view)
{
    for (size_t i = 0; i < view->count; i++)
        if (view->keys[i].known < view->keys[i].needed)
            return true;
    return false;
}

/* Asks for what is needed of the key; false: there is more than a transaction has. */
static bool add_read(struct transaction_run *run, const struct viewed_key *key)
{
    if (run->guard_count + run->step_count == STEPS_MAX)
        return false;
    run->steps[run->step_count++] = (struct clientk_operation){
        .opcode = key->needed == VIEWED_VALUE ? CLIENTK_GET : CLIENTK_EXISTS, .key = key->key};
    return true;
}

static void free_values(struct transaction_run *run)
{
    for (size_t i = 0; i < run->step_count; i++)
        clientk_value_free(&run->results[i].value);
}

/* Takes over what was read of a key. */
static enum run_end take_read(struct transaction_run *run, struct viewed_key *key,
                              struct clientk_result *result)
{
    clientk_value_free(&key->before.value);
    key->before = *result;
    key->known = key->needed;
    *result = (struct clientk_result){.status = KV_OK};
    run->status = key->before.status;
    if (run->status == KV_BUFFER_TOO_SMALL)
        return RUN_TOO_LARGE;
    return run->status == KV_OK || run->status == KV_NOT_FOUND ? RUN_GOES_ON : RUN_FAILED;
}

/* Reads every key that the commands need, all at one moment. */
static enum run_end read_needed(struct transaction_run *run)
{
    struct transaction_view *view = &run->view;
    struct clientk_transacted transacted;
    run->guard_count = run->step_count = 0;
    for (size_t i = 0; i < view->count; i++)
        if (view->keys[i].needed != VIEWED_NOTHING && !add_read(run, &view->keys[i]))
            return RUN_TOO_LARGE;
    enum run_end end = ask_transaction_of_store(run, &transacted);
    size_t bytes = 0;
    for (size_t i = 0, at = 0; i < view->count && end == RUN_GOES_ON; i++) {
        if (view->keys[i].needed == VIEWED_NOTHING)
            continue;
        bytes += view->keys[i].needed == VIEWED_VALUE ? run->results[at].value.size : 0;
        end = take_read(run, &view->keys[i], &run->results[at++]);
    }
    bool is_for_pieces = !run->queue && !(run->job->command->flags & COMMAND_SCRIPT);
    if (end == RUN_GOES_ON && is_for_pieces && bytes > READ_ALONE_BYTES)
        end = RUN_TOO_LARGE;
    free_values(run);
    return end;
}

/* Reads what the view needs while a script runs, if all that was read before is as it was; so is
 * all of it as it was at one moment. */
static enum run_end read_behind_guards(struct transaction_run *run)
{
    struct transaction_view *view = &run->view;
    struct clientk_transacted transacted;
    run->guard_count = run->step_count = 0;
    for (size_t i = 0; i < view->count; i++)
        if (view->keys[i].known != VIEWED_NOTHING &&
            !add_guard(run, view->keys[i].key, version_before(&view->keys[i])))
            return RUN_TOO_LARGE;
    for (size_t i = 0; i < view->count; i++)
        if (view->keys[i].known < view->keys[i].needed && !add_read(run, &view->keys[i]))
            return RUN_TOO_LARGE;
    enum run_end end = ask_transaction_of_store(run, &transacted);
    if (end == RUN_GOES_ON && transacted.outcome == CLIENTK_ELSE)
        end = RUN_CONFLICT;
    for (size_t i = 0, at = 0; i < view->count && end == RUN_GOES_ON; i++) {
        struct viewed_key *key = &view->keys[i];
        enum viewed_part was = key->known;
        if (was >= key->needed)
            continue;
        end = take_read(run, key, &run->results[at++]);
        transaction_view_take_read(key, was);
    }
    free_values(run);
    return end;
}

/* Forgets what was to be read, and could not be. */
static void forget_expected(struct transaction_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        struct viewed_key *key = &view->keys[i];
        if (key->before.status != KV_OK && key->before.status != KV_NOT_FOUND)
            key->known = VIEWED_NOTHING;
        key->needed = key->known;
    }
}

/* Reads what the operations of a script's command need; false: the script must end. */
static bool read_for_script(struct transaction_run *run)
{
    struct transaction_view *view = &run->view;
    view->is_missing = false;
    transaction_view_require(view, run->memory.operations, run->memory.operation_count);
    if (view->failed || view->is_full)
        run->script_end = view->failed ? RUN_NO_MEMORY : RUN_TOO_LARGE;
    if (run->script_end != RUN_GOES_ON || !view->is_missing)
        return run->script_end == RUN_GOES_ON;
    view->is_missing = false;
    bool expects = !run->has_read_keys && run->key_count > 0;
    run->has_read_keys = true;
    for (size_t i = 0; expects && i < run->key_count; i++) {
        redis_session_remember(run->job->session, run->keys[i]);
        transaction_view_expect(view, run->keys[i]);
    }
    run->script_end = read_behind_guards(run);
    if (run->script_end == RUN_TOO_LARGE && expects) {
        /* What the script may never ask for is too much: only what it does. */
        forget_expected(view);
        transaction_view_require(view, run->memory.operations, run->memory.operation_count);
        view->is_missing = false;
        run->script_end = read_behind_guards(run);
    }
    return run->script_end == RUN_GOES_ON;
}

/* The commands on the view --------------------------------------------------------------------- */

/* Executes one batch of the command. True: it has replied, or failed. */
static bool run_command_part(struct transaction_run *run, struct redis_job *command)
{
    struct batch_memory *memory = &run->memory;
    memory->operation_count = 0;
    command->first_operation = command->operations = 0;
    if (command->command->plan)
        command->command->plan(command);
    if (command->error || !batch_memory_make_results(memory)) {
        run->view.failed = run->view.failed || !command->error;
        memory->operation_count = 0;
        return true;
    }
    redis_command_remember_reads(run->job->session, command->command, memory->operations,
                                 memory->operation_count);
    if (run->keys && !read_for_script(run)) {
        memory->operation_count = 0;
        return true;
    }
    transaction_view_execute(&run->view, memory->operations, memory->operation_count,
                             memory->results);
    return run->view.failed || run->view.is_full || command->command->answer(command);
}

/* What the results have is the view's, so it must not be freed with them. */
static void forget_results(struct batch_memory *memory)
{
    for (size_t i = 0; i < memory->operation_count; i++)
        memory->results[i] = (struct clientk_result){0};
}

static void run_redis_command(struct transaction_run *run, const struct redis_command *command,
                              const struct kv_slice *arguments, size_t count)
{
    struct redis_job job = {.session = run->job->session,
                            .memory = &run->memory,
                            .owner = run->job->owner,
                            .command = command,
                            .run = run,
                            .arguments = arguments,
                            .count = count};
    /* The round begins anew; a script begins only on what is known. */
    if ((command->flags & COMMAND_SCRIPT) && run->view.is_missing)
        return;
    while (!run_command_part(run, &job))
        forget_results(&run->memory);
    if (job.error)
        reply_error(redis_job_reply(&job), "%s", job.error);
    redis_job_end(&job);
    forget_results(&run->memory);
    batch_memory_end(&run->memory);
}

static void run_queued(struct transaction_run *run, size_t i)
{
    struct queued_command queued = redis_transaction_command(run->queue, i);
    struct kv_slice few[FEW_WORDS], *arguments = few;
    /* Not from run->memory, which ends with each command that a script calls. */
    if (queued.arguments > FEW_WORDS)
        arguments = malloc(queued.arguments * sizeof *arguments);
    if (!arguments) {
        run->view.failed = true;
        return;
    }
    for (size_t j = 0; j < queued.arguments; j++)
        arguments[j] = redis_transaction_argument(run->queue, &queued, j);
    run_redis_command(run, queued.command, arguments, queued.arguments);
    if (arguments != few)
        free(arguments);
}

/* The clock ------------------------------------------------------------------------------------ */

const char *redis_transaction_give_way(const struct batch_memory *memory)
{
    const struct thread_scripts *scripts = memory->scripts;
    if (!scripts || !scripts->give_way || scripts->give_way(scripts->context))
        return NULL;
    return "ERR kresp: it is stopping";
}

/* Returns true if the run has had all the time that it may have, and abandons it. */
static bool is_out_of_time(struct transaction_run *run)
{
    uint64_t now_ms = script_clock_ms(&run->memory);
    if (now_ms == run->seen_ms)
        return false;
    run->seen_ms = now_ms;
    struct script_start start = redis_transaction_start(run);
    const char *reason = redis_transaction_give_way(&run->memory);
    if (reason)
        redis_transaction_abandon(run, reason);
    if (clock_thread_ns() - start.cpu_ns > (uint64_t)TRANSACTION_CPU_MS * 1000000)
        redis_transaction_abandon(run,
                                  "BUSY kresp: the transaction takes more CPU time than it may");
    else if (now_ms > start.clock_ms + TRANSACTION_CLOCK_MS)
        redis_transaction_abandon(run, "BUSY kresp: the transaction takes longer than it may");
    return run->script_end == RUN_ABANDONED;
}

/* Returns why the run cannot go on after what was executed. */
static enum run_end end_of_view(struct transaction_run *run)
{
    if (run->view.is_full)
        return RUN_TOO_LARGE;
    if (run->view.failed || redis_job_reply(run->job)->bytes.failed)
        return RUN_NO_MEMORY;
    if (run->view.work_bytes >> 20 > WORK_MOST_MB)
        return RUN_TOO_MUCH;
    return is_out_of_time(run) ? RUN_ABANDONED : RUN_GOES_ON;
}

/* Conditions of EXEC --------------------------------------------------------------------------- */

/* Returns how many arguments the condition at argument i has, with its word; 0: it is none. */
static size_t condition_size(const struct redis_job *exec, size_t i)
{
    size_t size = redis_argument_is(exec, i, "IFEQ") || redis_argument_is(exec, i, "IFNE") ? 3
                  : redis_argument_is(exec, i, "NX") || redis_argument_is(exec, i, "XX")   ? 2
                                                                                           : 0;
    return i + size <= exec->count ? size : 0;
}

bool redis_transaction_has_conditions(const struct redis_job *exec)
{
    size_t i = 1, size;
    while (i < exec->count && (size = condition_size(exec, i)) > 0)
        i += size;
    return i == exec->count;
}

/* Compares the conditions with the view. If one needs a key that was not read, it counts as held
 * for the rest of the round. */
static enum run_end check_exec_conditions(struct transaction_run *run)
{
    const struct redis_job *exec = run->job;
    for (size_t i = 1; i < exec->count; i += condition_size(exec, i)) {
        bool compares = condition_size(exec, i) == 3;
        bool wants_equal = redis_argument_is(exec, i, "IFEQ");
        const struct clientk_operation read = {.opcode = compares ? CLIENTK_GET : CLIENTK_EXISTS,
                                               .key = exec->arguments[i + 1]};
        struct clientk_result result;
        transaction_view_execute(&run->view, &read, 1, &result);
        bool is_there = result.status == KV_OK;
        bool is_equal =
            compares && is_there &&
            kv_slice_equal(kv_slice(result.value.data, result.value.size), exec->arguments[i + 2]);
        bool holds =
            compares ? is_equal == wants_equal : is_there == redis_argument_is(exec, i, "XX");
        if (!holds && !run->view.is_missing)
            return RUN_WATCHED;
        if (is_out_of_time(run))
            return RUN_ABANDONED;
    }
    return end_of_view(run);
}

/* Takes back what was done beside the store, or leaves it for good. */
static void end_effects(struct transaction_run *run, bool undo)
{
    while (run->effects) {
        struct transaction_effect *effect = run->effects;
        run->effects = effect->next;
        effect->end(effect->what, undo);
        free(effect);
    }
}

bool redis_transaction_note_effect(struct transaction_run *run, void (*end)(void *what, bool undo),
                                   void *what)
{
    struct transaction_effect *effect = malloc(sizeof *effect);
    if (!effect)
        return false;
    *effect = (struct transaction_effect){.next = run->effects, .end = end, .what = what};
    run->effects = effect;
    return true;
}

static enum run_end run_all_commands(struct transaction_run *run)
{
    struct resp_reply *reply = redis_job_reply(run->job);
    size_t count = run->queue ? redis_transaction_count(run->queue) : 1;
    rewind_reply(run);
    redis_subscriber_rewind(&run->job->session->subscriber);
    transaction_view_restart(&run->view);
    run->memory.hits = run->memory.misses = 0;
    end_effects(run, true);
    run->script_end = RUN_GOES_ON;
    if (run->queue) {
        enum run_end end = check_exec_conditions(run);
        if (end != RUN_GOES_ON)
            return end;
        reply_array(reply, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (run->queue)
            run_queued(run, i);
        else
            run_redis_command(run, run->job->command, run->job->arguments, run->job->count);
        if (run->script_end != RUN_GOES_ON)
            return run->script_end;
        enum run_end end = end_of_view(run);
        if (end != RUN_GOES_ON)
            return end;
    }
    return RUN_GOES_ON;
}

/* Adds what the commands have come to for this key. */
static void add_outcome(struct transaction_run *run, const struct viewed_key *key)
{
    bool was_there = key->is_looked_at && key->before.status == KV_OK;
    struct clientk_operation step = {.key = key->key};
    if (key->is_written && key->is_there) {
        step.opcode = CLIENTK_PUT;
        step.value = key->value;
        step.write.expiry_ms = key->expiry_ms;
    } else if (key->is_written && (was_there || !key->is_looked_at)) {
        step.opcode = CLIENTK_DELETE;
    } else if (!key->is_written && key->is_touched) {
        step.opcode = CLIENTK_TOUCH;
        step.write.expiry_ms = key->expiry_ms;
    } else {
        return;
    }
    run->steps[run->step_count++] = step;
}

static enum run_end add_watched(struct transaction_run *run)
{
    const struct watched_key *watched = run->queue ? run->queue->watched : NULL;
    for (; watched; watched = watched->next) {
        struct kv_slice name = kv_slice(watched->key, watched->size);
        const struct viewed_key *key = transaction_view_find(&run->view, name);
        if (key && key->is_looked_at) {
            if (version_before(key) != watched->version)
                return RUN_WATCHED;
        } else if (watched->size > 0 && watched->size <= MAX_STORED_KEY_BYTES &&
                   !add_guard(run, name, watched->version)) {
            return RUN_TOO_LARGE;
        }
    }
    return RUN_GOES_ON;
}

/* Has the store do what the commands came to. What they have read alone, all of it at one moment,
 * needs no second message. */
static enum run_end commit_run(struct transaction_run *run)
{
    struct transaction_view *view = &run->view;
    struct clientk_transacted transacted;
    run->guard_count = run->step_count = 0;
    for (size_t i = 0; i < view->count; i++)
        add_outcome(run, &view->keys[i]);
    if (run->step_count == 0 && !(run->queue && run->queue->watched))
        return RUN_DONE;
    for (size_t i = 0; i < view->count; i++)
        if (view->keys[i].is_looked_at &&
            !add_guard(run, view->keys[i].key, version_before(&view->keys[i])))
            return RUN_TOO_LARGE;
    size_t read_guards = run->guard_count;
    enum run_end end = add_watched(run);
    if (end != RUN_GOES_ON)
        return end;
    end = ask_transaction_of_store(run, &transacted);
    if (end == RUN_GOES_ON && transacted.outcome != CLIENTK_ELSE)
        redis_session_note_writes(run->job->session, run->steps, run->results, run->step_count);
    free_values(run);
    if (end != RUN_GOES_ON)
        return end;
    if (transacted.outcome == CLIENTK_ELSE)
        return transacted.guard < read_guards ? RUN_CONFLICT : RUN_WATCHED;
    return RUN_DONE;
}

/* For scripts ---------------------------------------------------------------------------------- */

bool redis_transaction_call(struct transaction_run *run, const struct redis_command *command,
                            const struct kv_slice *arguments, size_t count,
                            const struct kv_slice *keys, size_t key_count)
{
    static const struct kv_slice none;
    if (run->script_end != RUN_GOES_ON)
        return false;
    run->keys = keys ? keys : &none;
    run->key_count = key_count;
    run_redis_command(run, command, arguments, count);
    run->keys = NULL;
    if (run->script_end == RUN_GOES_ON)
        run->script_end = end_of_view(run);
    return run->script_end == RUN_GOES_ON;
}

void redis_transaction_abandon(struct transaction_run *run, const char *reason)
{
    if (run->script_end != RUN_GOES_ON)
        return;
    run->script_end = RUN_ABANDONED;
    run->reason = reason;
}

uint64_t redis_transaction_seed(struct transaction_run *run)
{
    if (run->seed == 0)
        run->seed = clock_monotonic_ns();
    return run->seed;
}

struct script_start redis_transaction_start(struct transaction_run *run)
{
    if (run->start.clock_ms == 0)
        run->start = script_start_now(&run->memory);
    return run->start;
}

enum kv_status redis_transaction_count_store(struct redis_job *job,
                                             struct redis_store_figures *figures)
{
    struct transaction_run *run = job->run;
    enum kv_status status = KV_OK;
    if (!run || !run->has_figures)
        status = redis_store_count(job->session->service->store, figures);
    else
        *figures = run->figures;
    if (run && status == KV_OK) {
        run->figures = *figures;
        run->has_figures = true;
    }
    return status;
}

/* Tries ---------------------------------------------------------------------------------------- */

static enum run_end try_run(struct transaction_run *run)
{
    enum run_end end;
    do {
        end = has_needs(&run->view) ? read_needed(run) : RUN_GOES_ON;
        if (end == RUN_GOES_ON)
            end = run_all_commands(run);
    } while (end == RUN_GOES_ON && run->view.is_missing);
    return end == RUN_GOES_ON ? commit_run(run) : end;
}

static enum run_end run_until_done(struct transaction_run *run)
{
    for (unsigned tries = 1;; tries++) {
        enum run_end end = try_run(run);
        if (end != RUN_CONFLICT || tries == TRIES_MAX)
            return end;
        run->script_end = RUN_GOES_ON;
        if (is_out_of_time(run))
            return RUN_ABANDONED;
        for (size_t i = 0; i < run->view.count; i++)
            run->view.keys[i].known = VIEWED_NOTHING;
        if (tries > EARLY_TRIES)
            clock_sleep_ms(1);
    }
}

static void reply_end(struct transaction_run *run, enum run_end end)
{
    struct resp_reply *reply = redis_job_reply(run->job);
    if (end == RUN_DONE) {
        run->job->memory->hits += run->memory.hits;
        run->job->memory->misses += run->memory.misses;
        return;
    }
    rewind_reply(run);
    switch (end) {
    case RUN_WATCHED:
        reply_null_array(reply);
        break;
    case RUN_TOO_LARGE:
        reply_error(reply,
                    "ERR kresp: a transaction has at most %u keys, those that it reads and those "
                    "that it writes counted apart, and what one message holds" NOTHING_DONE,
                    STEPS_MAX);
        break;
    case RUN_CONFLICT:
        reply_error(reply,
                    "BUSY kresp: others changed a key of the transaction %u times in "
                    "between" NOTHING_DONE,
                    TRIES_MAX);
        break;
    case RUN_TOO_MUCH:
        reply_error(reply,
                    "BUSY kresp: the transaction deals with more than %u MB, all its tries "
                    "together" NOTHING_DONE,
                    WORK_MOST_MB);
        break;
    case RUN_ABANDONED:
        reply_error(reply, "%s" NOTHING_DONE, run->reason);
        break;
    case RUN_NO_MEMORY:
        reply_error(reply, "ERR kresp: out of memory");
        break;
    case RUN_APART:
        reply_error(reply, "CROSSSLOT Keys in request don't hash to the same slot: %s" NOTHING_DONE,
                    run->refusal);
        break;
    case RUN_REFUSED:
        reply_error(reply, "ERR kresp: %s" NOTHING_DONE, run->refusal);
        break;
    default:
        if (run->status == KV_UNSUPPORTED)
            reply_error(reply, "ERR kresp: this serverk has no transactions" NOTHING_DONE);
        else
            reply_status(reply, run->status);
    }
}

/* queue NULL: the job's own command; false as redis_transaction_run_alone. */
static bool run_as_transaction(struct redis_job *job, const struct redis_transaction *queue)
{
    struct transaction_run *run = malloc(sizeof *run);
    if (!run) {
        redis_job_fail(job, "ERR kresp: out of memory");
        return true;
    }
    memset(run, 0, offsetof(struct transaction_run, guards)); /* 35 KiB less than all of it */
    run->job = job;
    run->queue = queue;
    run->reply_mark = byte_buffer_size(&redis_job_reply(job)->bytes);
    run->protocol = redis_job_reply(job)->protocol;
    run->memory.scripts = job->memory->scripts;
    run->seen_ms = script_clock_ms(&run->memory);
    batch_memory_limit_session(&run->memory, 0);
    transaction_view_init(&run->view, job->owner,
                          redis_store_max_value_bytes(job->session->service->store));
    enum run_end end = run_until_done(run);
    end_effects(run, end != RUN_DONE);
    bool is_for_pieces = !queue && !(job->command->flags & COMMAND_SCRIPT) &&
                         (end == RUN_TOO_LARGE || end == RUN_TOO_MUCH ||
                          (end == RUN_APART && (job->command->flags & COMMAND_DIVISIBLE)) ||
                          (end == RUN_FAILED && run->status == KV_UNSUPPORTED));
    if (is_for_pieces)
        rewind_reply(run);
    else
        reply_end(run, end);
    if (end == RUN_DONE)
        redis_subscriber_settle(&job->session->subscriber, redis_job_reply(job)->protocol);
    else
        redis_subscriber_rewind(&job->session->subscriber);
    transaction_view_free(&run->view);
    batch_memory_free(&run->memory);
    free(run);
    return !is_for_pieces;
}

void redis_transaction_run_queue(struct redis_job *exec)
{
    run_as_transaction(exec, &exec->session->transaction);
}

bool redis_transaction_run_alone(struct redis_job *job)
{
    return run_as_transaction(job, NULL);
}

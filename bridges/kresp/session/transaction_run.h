/*
 * transaction_run: executes commands as one transaction of the store: others see all of what they
 * do or nothing, and so does the store after a crash.
 *
 * The commands run on a view of their keys (transaction_view), each after those before it; then one
 * message asks the store to do what they came to if every key that they read, and every key that
 * was watched, is as it was. If one is not, they run again on what is there now. All tries together
 * take TRANSACTION_CPU_MS of CPU time at most, and TRANSACTION_CLOCK_MS with all waiting but that
 * for the turns of others, which they have between commands, and between a script's instructions.
 */
#ifndef MQKV_KRESP_SESSION_TRANSACTION_RUN_H
#define MQKV_KRESP_SESSION_TRANSACTION_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/time/clock.h"
#include "bridges/kresp/session/redis_job.h"
#include "bridges/kresp/session/redis_store.h"

#define TRANSACTION_CPU_MS   1000u
#define TRANSACTION_CLOCK_MS 10000u

/* Returns true if EXEC's arguments are conditions, as Valkey has them, or none: IFEQ key value,
 * IFNE key value, NX key, XX key. */
bool redis_transaction_has_conditions(const struct redis_job *exec);

/* Executes what the session has queued, and replies to EXEC: with an array of the replies; null if
 * a watched key was changed, or a condition does not hold; or an error: then nothing was executed,
 * unless it says that this is unknown. */
void redis_transaction_run_queue(struct redis_job *exec);

/* Executes the job's own command, which has not been planned, and replies. False: it is not for a
 * transaction (too many keys, or too much for one message; or the store has none, or not of keys
 * that lie apart in a cluster, and the command is one that can be divided), nothing was executed
 * or replied, and it has to be done in pieces. */
bool redis_transaction_run_alone(struct redis_job *job);

/* For scripts (job->run): the transaction that executes the job. ------------------------------- */

/* Executes a command that the job's script calls, behind those before it; its reply is appended to
 * the session's. What it needs to know is read before, as it was when all else that the transaction
 * has read was so; the first such message reads `keys`, too. False: the transaction cannot go on,
 * and the script must end: it begins again, or the transaction has failed. */
bool redis_transaction_call(struct transaction_run *run, const struct redis_command *command,
                            const struct kv_slice *arguments, size_t count,
                            const struct kv_slice *keys, size_t key_count);

/* The script may not go on, for this reason ("ERR ..."): nothing is executed. */
void redis_transaction_abandon(struct transaction_run *run, const char *reason);

/* Returns a number by which chance in scripts begins: the same in all tries, so that they ask for
 * the same keys. */
uint64_t redis_transaction_seed(struct transaction_run *run);

/* When scripts began: the thread's CPU time, and the time (script_clock_ms). */
struct script_start {
    uint64_t cpu_ns, clock_ms;
};

/* Returns the time for what began then: the turns of others do not count. */
static inline uint64_t script_clock_ms(const struct batch_memory *memory)
{
    const struct thread_scripts *scripts = memory->scripts;
    return clock_monotonic_coarse_ms() - (scripts ? scripts->paused_ms : 0);
}

static inline struct script_start script_start_now(const struct batch_memory *memory)
{
    return (struct script_start){.cpu_ns = clock_thread_ns(), .clock_ms = script_clock_ms(memory)};
}

/* Lets others have their turns if need be. Returns why what runs has to end then, or NULL. */
const char *redis_transaction_give_way(const struct batch_memory *memory);

/* Returns when the transaction began, about: a few milliseconds later, or when its first script
 * asked. */
struct script_start redis_transaction_start(struct transaction_run *run);

/* For commands that ask about the store -------------------------------------------------------- */

/* As redis_store_count; a transaction asks once, and then knows it. */
enum kv_status redis_transaction_count_store(struct redis_job *job,
                                             struct redis_store_figures *figures);

/* For commands that change more than keys (job->run) ------------------------------------------ */

/* Notes something that a command has done beside the store. end(what, true) takes it back: the
 * commands begin anew, or nothing is to have been executed; the last effect first. end(what, false)
 * leaves it: the transaction is done. False: no memory, and the caller ends it. */
bool redis_transaction_note_effect(struct transaction_run *run, void (*end)(void *what, bool undo),
                                   void *what);

#endif

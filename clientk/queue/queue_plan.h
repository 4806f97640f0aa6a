/*
 * queue_plan: a transaction, or a batch of reads, that is being put together. Keys and values live
 * in the plan until it is begun anew.
 *
 * Threads: one at a time for each plan.
 */
#ifndef MQKV_CLIENTK_QUEUE_QUEUE_PLAN_H
#define MQKV_CLIENTK_QUEUE_QUEUE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/clientk_queue.h"

#define QUEUE_KEY_BYTES (CLIENTK_MAX_QUEUE_NAME + 64u)
#define PLAN_STEPS      CLIENTK_MAX_TRANSACTION_STEPS

struct queue_plan {
    const char *prefix; /* of all keys: "queue:NAME:" */
    size_t key_count, guard_count, step_count, value_count;
    bool no_memory; /* something could not be added: plan_run says so */
    struct clientk_transacted told;
    struct clientk_guard guards[PLAN_STEPS];
    struct clientk_operation steps[PLAN_STEPS];
    struct clientk_result results[PLAN_STEPS]; /* of the steps, when it was run */
    void *values[PLAN_STEPS];                  /* of the plan's own */
    char keys[2 * PLAN_STEPS][QUEUE_KEY_BYTES];
};

/* Forgets all guards and steps. */
void plan_begin(struct queue_plan *plan);

/* Frees what the plan has, but not the plan. */
void plan_end(struct queue_plan *plan);

/* Makes a key: the prefix and a text. It lives until plan_begin. */
struct kv_slice plan_key(struct queue_plan *plan, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The entry has this version; 0: it is absent. */
void plan_guard_version(struct queue_plan *plan, struct kv_slice key, uint64_t version);
void plan_guard_value(struct queue_plan *plan, struct kv_slice key, struct kv_slice value);

/* Adds a step, and returns it for more options; never NULL. */
struct clientk_operation *plan_step(struct queue_plan *plan, enum clientk_opcode opcode,
                                    struct kv_slice key);

/* A PUT of a value that is copied, of one that is borrowed until the plan was run, and of one that
 * the plan frees (NULL: there was no memory for it). */
void plan_put_copy(struct queue_plan *plan, struct kv_slice key, struct kv_slice value);
void plan_put(struct queue_plan *plan, struct kv_slice key, struct kv_slice value);
void plan_put_owned(struct queue_plan *plan, struct kv_slice key, void *value, size_t size);
void plan_delete(struct queue_plan *plan, struct kv_slice key);
void plan_add(struct queue_plan *plan, struct kv_slice key, int64_t delta);

/* Returns how many guards and steps can still be added. */
size_t plan_room(const struct queue_plan *plan);

/* Runs the plan as a transaction. *done: whether the guards held, and it was done. KV_OK, also if
 * they did not hold; others as clientk_transact. */
enum kv_status plan_run(struct queue_plan *plan, struct clientk *client,
                        enum clientk_durability durability, bool *done);

/* Returns true if after that status the plan may have been executed, or may yet be. */
bool plan_is_unknown(const struct queue_plan *plan, enum kv_status status);

/* Runs the steps, reads or conditional writes, one by one in as few messages as possible. */
enum kv_status plan_execute(struct queue_plan *plan, struct clientk *client);

#endif

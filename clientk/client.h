/*
 * client: the inside of a handle: its settings, its combiners, its threads, its pipelines.
 */
#ifndef MQKV_CLIENTK_CLIENT_H
#define MQKV_CLIENTK_CLIENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "mqkv/clientk.h"
#include "clientk/combiner.h"
#include "clientk/settings.h"

struct attachment;

struct clientk {
    struct settings settings;   /* constant, once it is connected */
    _Atomic unsigned priority;  /* of connections that are yet to be made */
    unsigned fork_generation;   /* constant: of the process that opened it (threads.h) */
    struct combiner *combiners; /* combiner_count of them; each synchronises itself */
    unsigned combiner_count;

    /* Threads and combiners (threads.c); all guarded by handles_lock but for the epoch, which threads
     * read to see whether their combiner may have changed. */
    _Atomic uint32_t layout_epoch;
    bool shared; /* more threads than combine_above: all share the groups */
    unsigned thread_count;
    unsigned next_number;
    struct attachment **slot_owners; /* of combiner i as a thread's own; NULL: nobody */
    struct attachment *attachments;

    /* Pipelines; guarded by handles_lock. */
    struct clientk_pipeline *pipelines;
    struct clientk_info past; /* counters of those that were closed */
};

/* KV_OK; KV_USAGE and the sentence why, if client is NULL or the handle of a parent process. */
enum kv_status client_check(const struct clientk *client);

/* When a call that begins now must be over, in milliseconds of CLOCK_MONOTONIC. */
uint64_t client_deadline_ms(const struct clientk *client);

/* Executes the operations in order through the combiner of the calling thread. Returns KV_OK, or what stopped
 * it. */
enum kv_status client_execute(struct clientk *client, const struct clientk_operation *operations,
                              size_t count, struct clientk_result *results);

/* Executes the operation of the task, of which nothing else is filled in: its result's status. */
enum kv_status client_execute_one(struct clientk *client, struct task *task,
                                  struct clientk_result *result);

#endif

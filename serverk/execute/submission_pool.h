/*
 * submission_pool: what the requests have in common that are handed to an engine that is
 * elsewhere (submission.h): whom they serve, how many there may be, buffers for their replies,
 * and what was counted for them.
 *
 * Threads: any, but for creation, submissions_set_admin and submissions_free.
 */
#ifndef MQKV_SERVERK_EXECUTE_SUBMISSION_POOL_H
#define MQKV_SERVERK_EXECUTE_SUBMISSION_POOL_H

#include <stdint.h>

#include "engine/store_engine.h"
#include "serverk/execute/execution_context.h"
#include "serverk/execute/statistics.h"
#include "serverk/session/session_table.h"

/* Requests under way at once, and the bytes of their messages and values; more are refused. Users
 * share them as user_places.h says. */
#define SUBMISSIONS_MAX       4096u
#define SUBMISSIONS_MAX_BYTES (256ull << 20)

struct submissions;

/* What requests are executed with; constant once requests come. */
struct submission_services {
    struct store_engine *engine;
    struct session_table *sessions;
    struct fragment_budget *budget;
    stats_writer write_stats;
    const void *stats_context;
    admin_runner run_admin;
    void *admin_context;
    size_t buffer_bytes; /* of a reply: address space, memory is taken as far as it is used */
};

/* engine: one whose operations are submitted. NULL: out of memory. */
struct submissions *submissions_create(struct store_engine *engine, struct session_table *sessions,
                                       struct fragment_budget *budget, stats_writer write_stats,
                                       const void *stats_context);

/* Sets what executes ADMIN; to be called before the first request. */
void submissions_set_admin(struct submissions *submissions, admin_runner run_admin, void *context);

const struct submission_services *submissions_services(const struct submissions *submissions);

/* To be called after submissions_drain. NULL is harmless. */
void submissions_free(struct submissions *submissions);

/* Waits until no request is under way. */
void submissions_drain(struct submissions *submissions);

/* Returns the number of requests under way now; 0 of NULL. */
uint64_t submissions_under_way(struct submissions *submissions);

/* Counts one more request of the user `uid`, whose message has `bytes` bytes. False: there are too
 * many. */
bool submissions_admit(struct submissions *submissions, uid_t uid, size_t bytes);

/* Counts `bytes` of values that the user's admitted requests bring or have found. False: there are
 * too many. */
bool submissions_add_bytes(struct submissions *submissions, uid_t uid, size_t bytes);
void submissions_release_bytes(struct submissions *submissions, uid_t uid, size_t bytes);

/* A request that was admitted is gone. */
void submissions_dismiss(struct submissions *submissions, uid_t uid, size_t bytes);

/* A buffer of services.buffer_bytes for a reply; NULL: out of memory. */
uint8_t *submissions_take_buffer(struct submissions *submissions);

/* Gives back a buffer of which used_bytes were written. NULL is harmless. */
void submissions_give_buffer(struct submissions *submissions, uint8_t *buffer, size_t used_bytes);

/* Count a result of an operation; one without; bytes that were read out of a segment; a request
 * that was answered with sent_bytes, received and ready to be sent at these times. */
void submissions_count_result(struct submissions *submissions, enum wire_opcode opcode,
                              enum kv_status status);
void submissions_count_status(struct submissions *submissions, enum kv_status status);
void submissions_count_brought(struct submissions *submissions, size_t bytes);
void submissions_count_request(struct submissions *submissions, unsigned kind, size_t sent_bytes,
                               uint64_t received_ns, uint64_t ready_ns);

/* Adds what was counted for requests that ended. NULL is harmless. */
void submissions_statistics(struct submissions *submissions, struct worker_statistics *sum);

#endif

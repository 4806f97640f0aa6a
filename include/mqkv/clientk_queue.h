/*
 * clientk_queue: queues for jobs, in a store of mqkv: entries "queue:NAME:..." (docs/QUEUES.md).
 *     struct clientk_queue *queue;
 *     clientk_queue_open(client, kv_slice_from_string("mail"), NULL, &queue, &error);
 *     clientk_queue_put(queue, &payload, 1, NULL, NULL);
 *     struct clientk_job job = {0};
 *     size_t taken;
 *     while (clientk_queue_take(queue, 1, -1, &job, &taken) == KV_OK)
 *         if (work(job.payload.data, job.payload.size))
 *             clientk_queue_ack(queue, &job, 1);
 *         else
 *             clientk_queue_fail(queue, &job, kv_slice_from_string("no luck"), CLIENTK_BACKOFF);
 *
 * A job that was put is given to a worker again and again until one has acknowledged it, or until
 * it has been given max_attempts times: then it becomes a dead letter. While a worker's lease
 * holds, nobody else gets the job; the lease of a worker that has died, or is too slow, ends by
 * itself. Jobs of a higher priority come first, and those of one priority in the order in which
 * they were put; a job that comes back at the end of its lease keeps its place, unless it was one
 * of many slow ones (more than 64) that stood in the way; it and one that failed go to the end of
 * their priority. Nothing is lost when daemon, producers or workers are killed. A worker may be
 * killed after its work and before its acknowledgement: work has to bear being done twice.
 *
 * Times are those of the host's clock: setting it forward ends leases and delays. A store of
 * queues must not evict (serverk --evict).
 *
 * Threads: one at a time for each queue that is open; several may be open in one process, and of
 * one handle. Failures: as clientk.h says of calls; each also says what it leaves.
 */
#ifndef MQKV_CLIENTK_QUEUE_H
#define MQKV_CLIENTK_QUEUE_H

#include "mqkv/clientk.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported by libclientk.so */

#define CLIENTK_MAX_QUEUE_NAME   128u
#define CLIENTK_MAX_JOB_PRIORITY 9u
#define CLIENTK_RECEIPT_BYTES    48u
#define CLIENTK_MAX_JOB_REASON   1024u

struct clientk_queue;

struct clientk_queue_options {
    uint32_t lease_ms; /* of jobs that are taken; default 30,000 */
    uint32_t reserved_number;
    enum clientk_durability durability; /* of everything that the queue writes */
    uint32_t reserved_number_too;
    uint64_t reserved[6];
};

/* Opens the queue `name` (1 to CLIENTK_MAX_QUEUE_NAME bytes, no ':', no control characters) as
 * *queue, which must be closed before `client`. Nothing is written: a queue is there once something
 * was put. options NULL: the defaults. KV_OK; KV_USAGE, KV_UNSUPPORTED, KV_NO_MEMORY, each with a
 * sentence in *error (may be NULL). */
enum kv_status clientk_queue_open(struct clientk *client, struct kv_slice name,
                                  const struct clientk_queue_options *options,
                                  struct clientk_queue **queue, struct kv_error *error);

/* Frees the queue. Jobs that are taken stay so until their leases end. NULL is harmless. */
void clientk_queue_close(struct clientk_queue *queue);

/* Putting -------------------------------------------------------------------------------------- */

struct clientk_put_job_options {
    uint32_t priority;     /* 0 (the default) to CLIENTK_MAX_JOB_PRIORITY, which comes first */
    uint32_t max_attempts; /* how often the job is given to a worker; default 5 */
    uint64_t delay_ms;     /* nobody gets it before; at most CLIENTK_MAX_JOB_DELAY_MS */
    uint32_t backoff_ms;   /* after the first failure; doubles with each; default 1000 */
    uint32_t reserved_number;
    uint64_t reserved[5];
};
#define CLIENTK_MAX_JOB_DELAY_MS (100ull * 366 * 86400 * 1000)

/* Puts `count` jobs, payloads[0] first. options NULL: the defaults. ids (may be NULL): a number for
 * each, of 64 random bits. *put (may be NULL): how many were put: all, after KV_OK; after a failure
 * the first *put surely were, and with KV_TIMEOUT and KV_OUTCOME_UNKNOWN some of those behind it
 * perhaps. */
enum kv_status clientk_queue_put(struct clientk_queue *queue, const struct kv_slice *payloads,
                                 size_t count, const struct clientk_put_job_options *options,
                                 uint64_t *ids, size_t *put);

/* Taking --------------------------------------------------------------------------------------- */

/* A job that was taken. Starts from {0}, serves any number of calls (the memory of payload and
 * reason grows as needed and is reused), and is freed with clientk_job_free. */
struct clientk_job {
    struct clientk_value payload; /* data and size */
    struct clientk_value reason;  /* why the last attempt failed; empty: it did not */
    uint64_t id;
    uint64_t put_ms;   /* when it was put, in milliseconds since 1970 */
    uint64_t until_ms; /* when its lease ends; of one that waits: when it may be taken, 0: now */
    uint32_t priority;
    uint32_t attempts; /* how often it was given to a worker, this time included */
    uint32_t max_attempts;
    uint32_t backoff_ms;
    uint64_t number, token; /* with priority: the receipt */
    uint64_t version, body; /* of the library's own */
    uint64_t reserved[4];
};
void clientk_job_free(struct clientk_job *job);

/* Takes up to `count` jobs (1 to 64) in jobs[], *taken of them, whose leases hold for lease_ms from
 * now. If there is none, waits for one: timeout_ms, in milliseconds; 0: not at all; below 0: for
 * ever. No worker polls: it sleeps until a job is put or becomes due, or a lease ends.
 * KV_OK: *taken is not 0; KV_NOT_FOUND: none came, or the wait was interrupted. After other
 * statuses nothing was taken, or its lease ends without a worker. */
enum kv_status clientk_queue_take(struct clientk_queue *queue, size_t count, int timeout_ms,
                                  struct clientk_job *jobs, size_t *taken);

/* What becomes of a job that was taken. All of these return KV_OK; KV_VERSION_MISMATCH: the lease
 * is over, and the job was given to somebody else or back; KV_NOT_FOUND: the job is not there any
 * more: it was acknowledged, or lost its place at the end of the lease; KV_OUTCOME_UNKNOWN: the
 * daemon ended meanwhile, and the lease is over: this call may have settled the job, or another
 * worker has it or had it. A lease that is over by the clock alone is no failure. Of a job,
 * priority, number and token are looked at, and other members help. */

/* Acknowledges `count` jobs: they are done, and gone. If the lease of one is over, the others are
 * acknowledged all the same, and the first such status is returned. */
enum kv_status clientk_queue_ack(struct clientk_queue *queue, const struct clientk_job *jobs,
                                 size_t count);

#define CLIENTK_BACKOFF (-1)

/* Gives the job back as failed, with a reason (at most CLIENTK_MAX_JOB_REASON bytes of it are
 * kept): it can be taken again after delay_ms, or after a time that doubles with each attempt
 * (CLIENTK_BACKOFF: backoff_ms, at most an hour); or it becomes a dead letter, if it has had all of
 * its attempts. *dead (may be NULL): whether it did. */
enum kv_status clientk_queue_fail(struct clientk_queue *queue, const struct clientk_job *job,
                                  struct kv_slice reason, int64_t delay_ms, bool *dead);

/* Gives the job back as if it had not been taken: at once, at its old place (of one that stood in
 * the way, see above: at the end), or after delay_ms. */
enum kv_status clientk_queue_release(struct clientk_queue *queue, const struct clientk_job *job,
                                     uint64_t delay_ms);

/* Makes the job a dead letter, with a reason. */
enum kv_status clientk_queue_bury(struct clientk_queue *queue, const struct clientk_job *job,
                                  struct kv_slice reason);

/* Lets the lease end lease_ms from now (0: the queue's lease_ms), and sets job->until_ms. */
enum kv_status clientk_queue_extend(struct clientk_queue *queue, struct clientk_job *job,
                                    uint64_t lease_ms);

/* A receipt is a text by which another process, or a later one, settles a job. */

/* Writes the receipt of a job that was taken to text. */
void clientk_queue_receipt(const struct clientk_job *job, char text[CLIENTK_RECEIPT_BYTES]);

/* Fills in priority, number and token of *job from a receipt; other members become 0, but for the
 * memory of payload and reason. KV_OK; KV_USAGE: it is none. */
enum kv_status clientk_queue_read_receipt(struct kv_slice text, struct clientk_job *job);

/* Looking -------------------------------------------------------------------------------------- */

struct clientk_queue_lengths {
    uint64_t ready;  /* can be taken now: those whose lease or delay is over, too */
    uint64_t leased; /* a worker has them */
    uint64_t later;  /* delayed, or failed and not tried again yet */
    uint64_t dead;   /* dead letters */
    uint64_t reserved[4];
};

/* Counts the jobs, without reading more than some thousand of them: the sums are of one moment;
 * leased ones are counted among the first 1,024 of each priority, and those whose delay is over, or
 * whose lease, where they stood in the way, among the 1,024 that have been so the longest: others
 * count as `later` and `leased` until somebody takes jobs. */
enum kv_status clientk_queue_length(struct clientk_queue *queue,
                                    struct clientk_queue_lengths *lengths);

enum clientk_job_state {
    CLIENTK_JOB_READY = 1,
    CLIENTK_JOB_LEASED,
    CLIENTK_JOB_LATER,
    CLIENTK_JOB_DEAD
};

/* Calls visit(context, job, state) for up to `limit` (0: all) jobs of that state, in the order in
 * which they would be taken, without taking them; the job lives until `visit` returns, which
 * returns false to stop. Others put and take meanwhile. */
typedef bool (*clientk_visit_job)(void *context, const struct clientk_job *job,
                                  enum clientk_job_state state);
enum kv_status clientk_queue_list(struct clientk_queue *queue, enum clientk_job_state state,
                                  uint64_t limit, clientk_visit_job visit, void *context);

/* Gives dead letters, up to `limit` (0: all), another max_attempts attempts each: they go to the
 * end of their priorities. *count (may be NULL): how many, whatever the status. */
enum kv_status clientk_queue_revive(struct clientk_queue *queue, uint64_t limit, uint64_t *count);

/* Deletes jobs of a state that is not LEASED, up to `limit` (0: all). *count (may be NULL): how
 * many, whatever the status. */
enum kv_status clientk_queue_drop(struct clientk_queue *queue, enum clientk_job_state state,
                                  uint64_t limit, uint64_t *count);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

/*
 * queue_state: the inside of a struct clientk_queue, and what all of its calls need: the entries
 * "tails" and "heads". The layout of the entries, and why nothing is lost, is in docs/QUEUES.md.
 *
 * Threads: one at a time for each queue.
 */
#ifndef MQKV_CLIENTK_QUEUE_QUEUE_STATE_H
#define MQKV_CLIENTK_QUEUE_QUEUE_STATE_H

#include "clientk/base/last_error.h"
#include "clientk/queue/job_record.h"
#include "clientk/queue/queue_plan.h"
#include "common/numbers/random.h"
#include "common/report/error.h"
#include "mqkv/clientk_queue.h"

#define QUEUE_DEAD_LANE   10u
#define QUEUE_LANES       11u
#define QUEUE_TAILS_BYTES (QUEUE_LANES * 8u)

/* How often a change is tried while others come first, and while its outcome is unknown. */
#define QUEUE_TRIES         10000u
#define QUEUE_UNKNOWN_TRIES 3u

/* No number of a job gets near this one, nor are there so many in a moment, or so many numbers of a
 * lane in the way of a call whose jobs have left: an entry that says so is not the library's. */
#define QUEUE_MOST_NUMBER (UINT64_C(1) << 62)
#define QUEUE_MOST_DUE    (UINT64_C(1) << 20)
#define QUEUE_MOST_ABSENT (UINT64_C(1) << 18)

struct time_node;

struct clientk_queue {
    struct clientk *client;
    struct clientk_queue_options options;
    char prefix[QUEUE_KEY_BYTES];
    struct random_state random;
    uint64_t tails[QUEUE_LANES];            /* as last read or written */
    bool has_tails;                         /* the entry is there */
    uint8_t tails_bytes[QUEUE_TAILS_BYTES]; /* its value, for guards */
    uint64_t heads[QUEUE_LANES];            /* no record of the lane has a lower number */
    uint64_t told_heads[QUEUE_LANES];       /* the entry "heads", as last read or written */
    uint64_t heads_version;                 /* its version; 0: it is not there */
    bool has_heads;
    unsigned races; /* lost of late */
    unsigned naps;  /* how often to look again before sleeping */
    struct clientk_watch *watch;
    struct time_node *nodes; /* of time_tree */
    size_t node_count;
    struct clientk_value value;   /* of single reads */
    struct clientk_value located; /* the record of a job that is settled */
    struct queue_plan look;       /* reads */
    struct queue_plan plan;       /* writes */
};

/* Returns the lane as it stands in keys: "0" to "9", "dead". */
const char *queue_lane_name(unsigned lane);

/* The key of a record in a lane, or of one that was moved away from there. */
struct kv_slice queue_job_key(struct queue_plan *plan, unsigned lane, uint64_t number);
struct kv_slice queue_away_key(struct queue_plan *plan, unsigned lane, uint64_t number);
struct kv_slice queue_body_key(struct queue_plan *plan, uint64_t id);

/* Reads the entry "tails". KV_OK, also if there is none. */
enum kv_status queue_read_tails(struct clientk_queue *queue);

/* Guards of queue->plan: the tails are as queue->tails says. */
void queue_guard_tails(struct clientk_queue *queue);

/* A step of queue->plan: the tails become `next`; and what the caller does when it was done. */
void queue_put_tails(struct clientk_queue *queue, const uint64_t next[QUEUE_LANES]);
void queue_adopt_tails(struct clientk_queue *queue, const uint64_t next[QUEUE_LANES]);

/* A step of queue->plan that wakes those who wait, in a transaction that does not put the tails. */
void queue_ring(struct clientk_queue *queue);

/* Refuses the tail of a lane, up to which there are too few jobs. */
enum kv_status queue_refuse_tail(const struct clientk_queue *queue, unsigned lane);

/* A step of queue->plan: `count` records have left the lane. */
void queue_count_done(struct clientk_queue *queue, unsigned lane, uint64_t count);

/* Fills in *job from the record, number and version. KV_OK; KV_NO_MEMORY. */
enum kv_status queue_fill_job(struct clientk_job *job, const struct job_record *record,
                              uint64_t number, uint64_t version);

/* Fills in the payload of a job whose record says that it stands in body:ID. KV_NOT_FOUND: it does
 * not. */
enum kv_status queue_read_body(struct clientk_queue *queue, struct clientk_job *job);

/* Adds steps to queue->plan: a record that cannot be read stays where it is, and a dead letter,
 * which cannot be revived, says where that is. `next` become the tails. */
void queue_tell_unreadable(struct clientk_queue *queue, struct kv_slice key,
                           uint64_t next[QUEUE_LANES]);

/* A step of queue->plan: the record becomes the value of `key`. */
void queue_put_record(struct clientk_queue *queue, struct kv_slice key,
                      const struct job_record *record);

/* Sets the thread's last error to a sentence about the job, and returns `status`. */
static inline enum kv_status queue_refuse(enum kv_status status, const char *sentence)
{
    kv_error_set(last_error_of_thread(), status, "%s", sentence);
    return status;
}

#endif

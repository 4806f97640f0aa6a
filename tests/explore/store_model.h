/*
 * store_model: what a store may hold. Each write is noted when it is tried, when it is done, and
 * when it is known to be durable; after a death the judge says whether what is found can be what
 * the writes have left:
 *
 * - Nothing is found that was not written, nor what was lost before.
 * - Of each data file, all of its keys are as they were at one point in the order of its versions:
 *   what a power failure takes, it takes from the end.
 * - That point is not before what was durable; where nothing but the process died, not before
 *   anything that was done.
 * - Writes that were tried together (a transaction) are found all or none, over all data files.
 *
 * Each key is written by one thread at a time. Nothing here is a step of the schedule.
 */
#ifndef MQKV_TESTS_EXPLORE_STORE_MODEL_H
#define MQKV_TESTS_EXPLORE_STORE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

#define MODEL_KEYS        12u
#define MODEL_FILES       4u
#define MODEL_VALUE_BYTES 20000u
#define MODEL_SMALL_BYTES 27u /* of the smallest values, but for none */

/* Numbers from a seed. */
struct model_random {
    uint64_t state;
};

uint64_t model_draw(struct model_random *random);
uint32_t model_below(struct model_random *random, uint32_t bound);
bool model_one_in(struct model_random *random, uint32_t n);

/* A value that no other write has, in `buffer`. */
struct kv_slice model_make_value(struct model_random *random, uint8_t buffer[MODEL_VALUE_BYTES]);

/* Forgets everything. */
void model_begin(void);

struct kv_slice model_key(unsigned key);

/* The data file of the key, which the judge has to know. */
void model_set_file(unsigned key, unsigned file);

/* A write of the key is about to be tried; value NULL: its removal. Returns its number. What was
 * tried last with the key is done, or has failed. */
size_t model_try(unsigned key, const struct kv_slice *value, uint64_t expiry_ms);

/* One of several writes that are done together: as the arguments of model_try. */
struct model_part {
    unsigned key;
    const struct kv_slice *value;
    uint64_t expiry_ms;
};

/* Writes of different keys are about to be tried together: after a death, and in a copy of one
 * moment, all of them are there or none. Returns the number of the first; the others' follow in
 * their order. Each is noted as done, failed or durable like any other write, all of them alike. */
size_t model_try_together(const struct model_part parts[], unsigned part_count);

/* The write was done, at that time of the schedule's clock. An explanation if the version was given
 * before, else NULL. */
const char *model_note_done(size_t write, uint64_t version, uint64_t now_ns);

/* It has changed nothing. */
void model_note_failed(size_t write);

void model_note_durable(size_t write);

/* Those that were done before that time are durable. */
void model_note_durable_until(uint64_t ns);

struct model_finding {
    bool is_there;
    uint64_t version;
    struct kv_slice value;
};

/* The value that a read by the key's writer has to find. NULL: none. An expiry is not looked at. */
const struct kv_slice *model_value(unsigned key);

/* How entries may have gone. */
struct model_circumstances {
    uint64_t now_ms;    /* CLOCK_REALTIME, of which the latest was latest_ms */
    uint64_t latest_ms; /* what expires by then may be gone */
    bool may_evict;
};

/* What is wrong with a read by the key's writer, or NULL. */
const char *model_judge_read(unsigned key, const struct model_finding *found,
                             const struct model_circumstances *now);

/* After the death of a process, or its end. all_done: everything that was done must be there. NULL,
 * or what is wrong; from then on the model is what was found. */
const char *model_judge(const struct model_finding found[MODEL_KEYS], bool all_done,
                        const struct model_circumstances *now);

/* A moment: the writes that were done before, and those that were tried until after. */
struct model_moment {
    uint64_t least[MODEL_FILES];
    size_t count;
    unsigned judgements; /* that were before */
};

void model_begin_moment(struct model_moment *moment);
void model_end_moment(struct model_moment *moment);

/* What is wrong with a copy of the store as it was at one of these moments, or NULL. is_mixed: each
 * of its files may be of another one. What the store has lost since is no matter. */
const char *model_judge_copy(const struct model_finding found[MODEL_KEYS],
                             const struct model_moment moments[], unsigned moment_count,
                             bool is_mixed, const struct model_circumstances *now);

/* Everything that is there is durable. */
void model_note_all_durable(void);

#endif

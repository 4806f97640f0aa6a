/*
 * store_engine: what serverk needs of a store, wherever its data are. There are two kinds:
 *   - called: the data are in this process (kvstore). `store` is set, and operations are the calls
 *     of mqkv/kvstore.h, made directly: nothing lies between them and the worker.
 *   - submitted: the data are behind a network. `store` is NULL. An operation is handed over and
 *     its outcome comes later, from a thread of the engine: whoever waits holds no thread.
 * What both can tell (facts, statistics) and their end are calls of the table.
 *
 * Threads: any, at any time between open and close.
 */
#ifndef MQKV_ENGINE_STORE_ENGINE_H
#define MQKV_ENGINE_STORE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/kvstore.h"

enum engine_opcode {
    ENGINE_GET,
    ENGINE_EXISTS, /* as GET, without the value */
    ENGINE_PUT,
    ENGINE_DELETE,
    ENGINE_ADD,
    ENGINE_APPEND,
    ENGINE_EXCHANGE,
    ENGINE_TOUCH,
    ENGINE_SCAN,
    ENGINE_SYNC,
    ENGINE_TRANSACT,
    ENGINE_OPCODES
};

/* One operation that is submitted, and its outcome. It is the caller's, and stays where it is, with
 * the key, the value and what `context` points at, until done was called. */
struct engine_operation {
    enum engine_opcode opcode;
    struct kv_slice key; /* SCAN: the prefix */
    struct kv_slice value;
    struct kvstore_put_options put; /* PUT, EXCHANGE; of TOUCH and DELETE expiry_ms and version */
    struct kvstore_add_options add;
    int64_t delta;
    bool synced;          /* the outcome is to come when the write is on disk */
    uint64_t deadline_ms; /* CLOCK_MONOTONIC; 0: the engine's own patience */

    /* SCAN. visit is called as by kvstore_scan, but without any lock. */
    uint64_t cursor;
    uint32_t limit; /* entries, at least 1 */
    bool keys_only;
    bool atomic;
    kvstore_visit visit;

    /* EXCHANGE: where the old value goes, called as by kvstore_exchange_to, perhaps several times:
     * the last counts. */
    kvstore_place place;
    void *context; /* of visit and place */

    /* TRANSACT: as the arguments of kvstore_transact. Where its place gives none for a value,
     * nothing is done: KV_BUFFER_TOO_SMALL, and the results tell the sizes. after_reading: of PUTs
     * and DELETEs whose results nobody needs: each is written only over what its key had when it
     * was read, so that a late message of it, of which nobody knows any more, changes nothing; only
     * where operations are submitted. */
    bool after_reading;
    const struct kvstore_transaction *transaction;
    struct kvstore_step_result *results;
    struct kvstore_transacted transacted;

    /* Called once, by any thread, perhaps before submit returns, no lock held. From then on the
     * engine does not know the operation. */
    void (*done)(struct engine_operation *operation);

    /* The outcome. */
    enum kv_status status;
    const char *sentence;       /* why, where the status alone does not say it; else NULL; static */
    struct kvstore_entry entry; /* GET, EXISTS; EXCHANGE: the old one. Of writes: the new version */
    struct kv_slice found_value; /* GET: until done returns */
    bool found;                  /* EXCHANGE: there was an old value */
    int64_t number; /* ADD: the sum, on KV_OUT_OF_BOUNDS the value found; APPEND: the new size;
                       SCAN: the cursor to go on with, 0: all was visited */

    struct engine_operation *next; /* for the engine */
    bool bounded;                  /* for the engine: deadline_ms is its own patience */
};

/* A number that an engine tells about itself. */
struct engine_number {
    const char *name; /* for JSON and metrics; "requests_total": it only grows, others do not */
    const char *help; /* a sentence */
    uint64_t value;
};

typedef void (*engine_number_visit)(void *context, const struct engine_number *number);

struct store_engine;

struct engine_calls {
    const char *name; /* "kvstore", "nats" */

    /* NULL where operations are called. The outcome of an operation:
     *   - as the call of kvstore.h of that name, and KV_UNSUPPORTED where the engine cannot do it
     *     (of TRANSACT, transacted.at tells the key);
     *   - KV_NO_SERVER, KV_DEADLINE, KV_OVERLOADED: surely nothing happened;
     *   - KV_OUTCOME_UNKNOWN: a write that was perhaps executed.
     * Two operations on one key that are under way together are executed in any order. */
    void (*submit)(struct store_engine *engine, struct engine_operation *operation);

    uint32_t (*max_value_bytes)(const struct store_engine *engine);

    /* Returns the number of files whose syncs are told apart (kvstore_ticket); 0 where operations
     * are submitted. */
    uint32_t (*datafiles)(const struct store_engine *engine);

    /* Tells how other processes may read the store; all 0: they may not. */
    void (*direct_facts)(const struct store_engine *engine, struct kvstore_direct_facts *facts);

    /* Writes what the engine has, such as "4 data files", to `text`, which has room for `size`
     * bytes, and returns it. */
    const char *(*describe)(const struct store_engine *engine, char *text, size_t size);

    /* Calls `visit` with each number that stats has no other place for. */
    void (*numbers)(const struct store_engine *engine, engine_number_visit visit, void *context);

    /* No operation may be under way. Frees the engine. */
    enum kv_status (*close)(struct store_engine *engine, struct kv_error *error);
};

/* The beginning of every engine. */
struct store_engine {
    const struct engine_calls *calls;
    struct kvstore *store; /* NULL: operations are submitted */
};

static inline bool engine_is_called(const struct store_engine *engine)
{
    return engine->store != NULL;
}

static inline uint32_t engine_max_value_bytes(const struct store_engine *engine)
{
    return engine->calls->max_value_bytes(engine);
}

static inline uint32_t engine_datafiles(const struct store_engine *engine)
{
    return engine->calls->datafiles(engine);
}

/* Closes the engine and frees it. NULL is harmless. */
static inline enum kv_status engine_close(struct store_engine *engine, struct kv_error *error)
{
    return engine ? engine->calls->close(engine, error) : KV_OK;
}

#endif

/*
 * kv: what clients and server of a versioned key-value store say to each other. The interface is
 * that of MIT's course 6.5840, lab 2 ("Key/Value Server"): a put names the version that the key
 * has, and what was sent may have been executed though no answer came.
 *
 * Do not change this file.
 */
#ifndef LAB_KV_H
#define LAB_KV_H

#include <stdbool.h>
#include <stdint.h>

#define KV_KEYS_MOST  16
#define KV_TEXT_BYTES 32 /* of a key or a value, with the '\0' that ends it */

enum kv_answer {
    ANSWER_OK,
    ANSWER_NO_KEY,  /* a get of a key that is not there, or a put of one with a version but 0 */
    ANSWER_VERSION, /* the key has another version: the put was not executed */
    ANSWER_MAYBE    /* of clerk_put only: it was executed, or not */
};

/* A version is 0 for a key that is not there, and grows with each put. */
struct kv_request {
    bool is_put;
    char key[KV_TEXT_BYTES];
    char value[KV_TEXT_BYTES]; /* of a put */
    uint64_t version;          /* of a put: that the key must have */
};

struct kv_reply {
    enum kv_answer answer;
    char value[KV_TEXT_BYTES]; /* of a get */
    uint64_t version;          /* of a get */
};

/* Sends a request, and waits for the reply. False: none came. The request was lost, and not
 * executed; or it was executed, and the reply was lost. A reply is never another request's. */
bool network_call(const struct kv_request *request, struct kv_reply *reply);

/* Waits for a moment. */
void network_pause(void);

/* The clerk (clerk.c): calls that go on until there is an answer. Each thread may call it.
 *
 * clerk_get fills in the value, of KV_TEXT_BYTES, and its version. ANSWER_OK, ANSWER_NO_KEY.
 *
 * clerk_put: ANSWER_OK: it was executed, once. ANSWER_VERSION, ANSWER_NO_KEY: it was not.
 * ANSWER_MAYBE: it may have been, since an answer to an earlier sending was lost; only then. */
enum kv_answer clerk_get(const char *key, char *value, uint64_t *version);
enum kv_answer clerk_put(const char *key, const char *value, uint64_t version);

/* A lock (lock.c) that is a key of the store: of several that call lock_acquire one at a time
 * returns, until it has called lock_release. `owner` is a name that nobody else has; who holds the
 * lock does not die. */
void lock_acquire(const char *key, const char *owner);
void lock_release(const char *key, const char *owner);

#endif

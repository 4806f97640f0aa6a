/*
 * status: the one list of outcomes that every room of mqkv shares. The numbers
 * travel in messages (docs/PROTOCOL.md), so a number, once released, keeps its
 * meaning for ever; new ones are added at the end.
 */
#ifndef MQKV_STATUS_H
#define MQKV_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* exported by libclientk.so and libkvstore.so */

enum kv_status {
    KV_OK = 0,
    /* Answers that are not failures: the store works, the condition did not hold. */
    KV_NOT_FOUND = 1,        /* no such key (or it has expired) */
    KV_EXISTS = 2,           /* put-if-absent: the key is there already */
    KV_VERSION_MISMATCH = 3, /* the entry's version is not the expected one */
    KV_OUT_OF_BOUNDS = 4,    /* add: the sum would leave its bounds, or int64; nothing changed */
    KV_NOT_A_NUMBER = 5,     /* add: the value is not a decimal int64 */
    /* The caller's fault: the same call will fail again. */
    KV_BAD_KEY = 6,          /* key of 0 or of more than 65,535 bytes */
    KV_VALUE_TOO_BIG = 7,    /* value above the store's max_value_bytes */
    KV_BUFFER_TOO_SMALL = 8, /* the value does not fit where it was to go; nothing changed */
    KV_BAD_REQUEST = 9,      /* malformed message or operation */
    KV_UNSUPPORTED = 10,     /* unknown operation, flag or protocol version */
    KV_DENIED = 11,          /* not permitted for this user */
    KV_USAGE = 12,           /* wrong argument or option */
    /* The store cannot do it now. */
    KV_NO_SPACE = 13,    /* disk full or file at its limit; reads and deletes go on */
    KV_READ_ONLY = 14,   /* file stopped taking writes after a failed sync, or opened read-only */
    KV_CORRUPT = 15,     /* a checksum does not hold */
    KV_IO = 16,          /* the operating system reported an error */
    KV_NOT_DURABLE = 17, /* applied, but the sync that was asked for failed */
    KV_NO_MEMORY = 18,
    KV_BUSY = 19,     /* owned by another process (its pid is in the message) */
    KV_MISMATCH = 20, /* store of another D, or of another format version */
    /* The way between client and server. */
    KV_OVERLOADED = 21,      /* refused before it was executed: too much is waiting */
    KV_DEADLINE = 22,        /* deadline passed before it was executed; nothing changed */
    KV_TIMEOUT = 23,         /* no answer in time; a write may or may not have been executed */
    KV_NO_SERVER = 24,       /* nobody serves this queue */
    KV_OUTCOME_UNKNOWN = 25, /* the server died: a write may or may not have been executed */
    KV_LIMIT = 26,           /* a kernel limit on queues, memory or descriptors */
    KV_NO_SESSION = 27,      /* the server does not know this session (it was restarted) */
    /* The store cannot do it, and not later: */
    KV_CROWDED = 28, /* too many keys of nearly the same hash are there; others can be written */
    /* A bound that the operator has set: */
    KV_FULL = 29, /* the store has reached max_bytes; reads, deletes, and writes that do not make it
                     larger go on */
    KV_QUOTA = 30, /* a quota is used up: of the user, or of the keys that begin as this one does */
    /* Of those who follow changes: */
    KV_MISSED = 31, /* there were changes that are not known any more: read everything anew */
    /* Of transactions: */
    KV_APART = 32, /* the keys lie in several shards of a cluster; nothing was done */
    KV_STATUS_COUNT
};

/* The status as one lower-case word for logs and JSON ("not_found"). Never NULL: numbers outside
 * the list give "unknown_status". */
const char *kv_status_name(enum kv_status status);

/* The status as a short phrase for people ("key not found"). Never NULL. */
const char *kv_status_text(enum kv_status status);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif

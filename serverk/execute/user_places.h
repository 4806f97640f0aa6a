/*
 * user_places: a number of places, and of bytes, that users share, each as much of both as
 * user_share gives one user, and all users together.
 *
 * Threads: the caller's lock.
 */
#ifndef MQKV_SERVERK_EXECUTE_USER_PLACES_H
#define MQKV_SERVERK_EXECUTE_USER_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/status.h"

struct user_places {
    uint64_t max_count, max_bytes;
    uint64_t count, bytes; /* in use */
    struct user_usage *users;
};

/* Takes `count` places and `bytes` bytes for the user `uid`. KV_OVERLOADED: too much is in use; the
 * first place of a user may have more bytes than its part, and the first of all any number.
 * KV_NO_MEMORY. */
enum kv_status user_places_take(struct user_places *places, uid_t uid, unsigned count,
                                size_t bytes);

/* Gives back `count` places and `bytes` bytes that the user has. All of its bytes have to be given
 * back with its last place. */
void user_places_give_back(struct user_places *places, uid_t uid, unsigned count, size_t bytes);

#endif

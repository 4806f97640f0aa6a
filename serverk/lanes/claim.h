/*
 * claim: a daemon's claim to a queue name: the write lock on NAME.lock, a queue of mode 0600 that
 * nobody sends to. One daemon a name; and no client can take it.
 */
#ifndef MQKV_SERVERK_LANES_CLAIM_H
#define MQKV_SERVERK_LANES_CLAIM_H

#include <mqueue.h>
#include <sys/types.h>

#include "mqkv/error.h"

/* Checks whether claim_take would find the name `base` taken, as far as that can be known without
 * taking it: KV_BUSY, KV_DENIED, KV_IO. */
enum kv_status claim_check(const char *base, struct kv_error *error);

/* Returns the process that has the claim to the name `base`; 0: none, or it is not seen here. */
pid_t claim_owner(const char *base);

/* Takes the claim to the name `base`. KV_BUSY (the owner's pid), KV_DENIED (the name belongs to
 * somebody else), KV_LIMIT, KV_IO; *claim is -1 then. */
enum kv_status claim_take(const char *base, mqd_t *claim, struct kv_error *error);

/* Gives the claim up. claim -1 is harmless. */
void claim_give_up(const char *base, mqd_t claim);

/* Returns KV_DENIED; the sentence tells what to do about the queue `name` of another user. */
enum kv_status claim_refuse_foreign(const char *name, struct kv_error *error);

#endif

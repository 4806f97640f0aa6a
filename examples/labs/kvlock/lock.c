#include "kv.h"

/* Yours: with clerk_get, clerk_put and network_pause. */

void lock_acquire(const char *key, const char *owner)
{
    (void)key, (void)owner;
}

void lock_release(const char *key, const char *owner)
{
    (void)key, (void)owner;
}

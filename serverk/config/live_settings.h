/*
 * live_settings: the settings that change while the daemon serves, as the threads that execute
 * requests see them. Written by reload.c alone; each is read on its own, so a request may see one
 * of two that change together as it was.
 */
#ifndef MQKV_SERVERK_CONFIG_LIVE_SETTINGS_H
#define MQKV_SERVERK_CONFIG_LIVE_SETTINGS_H

#include <stdatomic.h>
#include <stdint.h>

#include "serverk/config/options.h"

struct live_settings {
    _Atomic unsigned durability; /* enum kvstore_durability */
    _Atomic uint32_t sync_interval_ms;
    _Atomic uint32_t max_value_bytes;
};

static inline void live_settings_take(struct live_settings *live,
                                      const struct server_options *options)
{
    atomic_store(&live->durability, (unsigned)options->durability);
    atomic_store(&live->sync_interval_ms, options->sync_interval_ms);
    atomic_store(&live->max_value_bytes, options->max_value_bytes);
}

static inline enum kvstore_durability live_durability(const struct live_settings *live)
{
    return (enum kvstore_durability)atomic_load_explicit(&live->durability, memory_order_relaxed);
}

static inline uint32_t live_max_value_bytes(const struct live_settings *live)
{
    return atomic_load_explicit(&live->max_value_bytes, memory_order_relaxed);
}

#endif

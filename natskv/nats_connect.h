/*
 * nats_connect: a connection of the NATS client library as the options ask for it: servers,
 * credentials, TLS, and how long it tries.
 */
#ifndef MQKV_NATSKV_NATS_CONNECT_H
#define MQKV_NATSKV_NATS_CONNECT_H

#include <nats/nats.h>

#include "natskv/natskv.h"

struct nats_events {
    void (*lost)(natsConnection *connection, void *context);
    void (*found_again)(natsConnection *connection, void *context);
    void *context;
};

/* Errors as natskv_open. */
enum kv_status nats_connect(const struct natskv_options *options, const struct nats_events *events,
                            natsConnection **connection, struct kv_error *error);

#endif

/*
 * nats_connect: a connection of the NATS client library as the options ask for it: servers,
 * credentials, TLS, and how long it tries.
 */
#ifndef MQKV_NATSKV_NATS_CONNECT_H
#define MQKV_NATSKV_NATS_CONNECT_H

#include <nats/nats.h>

#include "mqkv/error.h"
#include "bridges/cluster/natskv/natskv_options.h"

struct nats_events {
    void (*lost)(natsConnection *connection, void *context);
    void (*found_again)(natsConnection *connection, void *context);
    /* The library has closed the connection for good: after an error for which it does not try
     * again, such as credentials that one server refused twice. Also called after nats_connect's
     * caller has closed it. */
    void (*closed)(natsConnection *connection, void *context);
    void *context;
};

#define NATS_SHOWN_BYTES 512u

/* Writes the URLs without users and passwords, for people, cut to what fits. Returns text. */
const char *nats_urls_shown(const char *urls, char text[NATS_SHOWN_BYTES]);

/* Loads what natskv_prepare says. */
void nats_connect_prepare(const struct natskv_options *options);

/* Connects. Errors: those of natskv_open. */
enum kv_status nats_connect(const struct natskv_options *options, const struct nats_events *events,
                            natsConnection **connection, struct kv_error *error);

#endif

/*
 * server: executes requests, of several threads at once.
 *
 * You may change the members of the structs, and nothing else in this file.
 */
#ifndef LAB_SERVER_H
#define LAB_SERVER_H

#include <pthread.h>

#include "kv.h"

struct kv_server {
    pthread_mutex_t mutex;
};

/* Makes a server without keys. */
void kv_server_init(struct kv_server *server);
void kv_server_destroy(struct kv_server *server);

/* Executes a request, as if at one moment, and fills in the reply. There are never more than
 * KV_KEYS_MOST keys. */
void kv_server_execute(struct kv_server *server, const struct kv_request *request,
                       struct kv_reply *reply);

#endif

/*
 * request_threads: --dispatch thread: a thread for each message. The receiving thread starts one
 * with the message that it received; the thread handles it as a worker would, and ends. At most
 * service->options->workers are alive; at that limit the receiving thread waits (slots.h). It joins
 * a thread that has ended before it starts the next in its place, so none is left at the end.
 *
 * Where the system starts no thread (ulimit -u), the receiving thread handles the message itself.
 */
#ifndef MQKV_LAB_DISPATCH_REQUEST_THREADS_H
#define MQKV_LAB_DISPATCH_REQUEST_THREADS_H

#include "serverk/dispatch/pool.h"

/* Makes the feed of a pool of one (pool.h). The first block of service->statistics is not touched.
 * KV_NO_MEMORY. */
enum kv_status request_threads_create(const struct service *service, struct pool_feed *feed,
                                      struct kv_error *error);

#endif

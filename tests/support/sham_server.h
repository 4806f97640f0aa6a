/*
 * sham_server: a process that shakes hands with a client as serverk does, and then answers as a
 * test says: late, never, or with what serverk would not say. It dies with the process that started
 * it.
 */
#ifndef MQKV_TESTS_SUPPORT_SHAM_SERVER_H
#define MQKV_TESTS_SUPPORT_SHAM_SERVER_H

#include <mqueue.h>
#include <sys/types.h>

#include "wire/message.h"
#include "wire/value_segment.h"

/* The last session that was opened, in the sham server's process. */
struct sham_session {
    uint64_t nonce;
    mqd_t reply_queue;
    struct wire_segment *segment; /* NULL: none. Those of former sessions stay mapped */
};

/* Called in the sham server's process, which shares nothing with the test but shared memory: with
 * each request and its first operation (whose value is there, in the segment or in the message);
 * and with both NULL about every millisecond in which none came. */
typedef void (*sham_handler)(const struct sham_session *session, const struct wire_header *request,
                             const struct wire_operation *operation);

/* So many sessions are welcomed by servers that are started from now on; who comes then finds the
 * reply queue filled by somebody else. UINT_MAX, the default: all. */
extern unsigned sham_welcomes;

/* Starts it and waits until the queue is served. */
pid_t sham_server_start(const char *queue, sham_handler handler);

/* Kills it and removes its queue. */
void sham_server_stop(pid_t pid, const char *queue);

/* Answers a request: with the result, or, result NULL, by refusing the message as a whole. */
void sham_answer(const struct sham_session *session, const struct wire_header *request,
                 enum kv_status status, const struct wire_result *result);

/* Refuses it as a whole, with a sentence. */
void sham_refuse(const struct sham_session *session, const struct wire_header *request,
                 enum kv_status status, const char *sentence);

#endif

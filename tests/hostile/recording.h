/*
 * recording: genuine messages, as the client library sent them: every kind and every operation,
 * small and large values, through a segment and in parts. For programs that define mq_timedsend and
 * mq_send to call recording_note.
 */
#ifndef MQKV_TESTS_HOSTILE_RECORDING_H
#define MQKV_TESTS_HOSTILE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORDING_MAX_MESSAGES  4096
#define RECORDING_MESSAGE_BYTES 8192

struct recorded_message {
    uint8_t *bytes;
    size_t size;
};

struct recording {
    struct recorded_message messages[RECORDING_MAX_MESSAGES];
    size_t count;
    bool on;
};

/* Keeps a copy of the message, if the recording is on and has room. */
void recording_note(struct recording *recording, const void *bytes, size_t size);

/* Works with the server as an honest client does, twice: with a segment and without. False, with a
 * sentence on stderr, if that failed or if a kind of message is missing in the end. */
bool recording_make(struct recording *recording, const char *queue);

void recording_free(struct recording *recording);

#endif

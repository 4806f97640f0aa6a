#include "tests/hostile/recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "wire/message.h"

#define LARGE_BYTES  20000u
#define LARGER_BYTES 200000u
#define ENTRIES      60
#define KIND_OFFSET  5u
#define BATCH        8u
#define SOME_EXPIRY  (UINT64_C(1) << 42)

void recording_note(struct recording *recording, const void *bytes, size_t size)
{
    if (!recording->on || recording->count == RECORDING_MAX_MESSAGES ||
        size > RECORDING_MESSAGE_BYTES)
        return;
    struct recorded_message *message = &recording->messages[recording->count];
    message->bytes = malloc(size ? size : 1);
    if (!message->bytes)
        return;
    memcpy(message->bytes, bytes, size);
    message->size = size;
    recording->count++;
}

static bool visit(void *context, const struct clientk_entry *entry)
{
    (void)context;
    return entry->key.size > 0;
}

static struct kv_slice key_of(int number, char key[24])
{
    snprintf(key, 24, "recorded %d", number);
    return kv_slice_from_string(key);
}

/* A batch that has every operation, its flags among them. */
static enum kv_status batch(struct clientk *client)
{
    struct kv_slice key = kv_slice_from_string("batched"), value = kv_slice_from_string("1234");
    struct clientk_operation operations[BATCH] = {
        {.opcode = CLIENTK_PUT, .key = key, .value = value, .write = {.expiry_ms = SOME_EXPIRY}},
        {.opcode = CLIENTK_GET, .key = key},
        {.opcode = CLIENTK_ADD, .key = key, .delta = -7},
        {.opcode = CLIENTK_EXCHANGE, .key = key, .value = value, .write = {.keep_expiry = true}},
        {.opcode = CLIENTK_APPEND, .key = key, .value = value},
        {.opcode = CLIENTK_TOUCH, .key = key, .write = {.expiry_ms = SOME_EXPIRY}},
        {.opcode = CLIENTK_SCAN, .key = key, .scan = {.limit = 3}},
        {.opcode = CLIENTK_DELETE, .key = key},
    };
    struct clientk_result results[BATCH] = {0};
    enum kv_status status = clientk_execute(client, operations, BATCH, results);
    for (size_t i = 0; i < BATCH; i++)
        clientk_value_free(&results[i].value);
    return status;
}

static enum kv_status small_work(struct clientk *client)
{
    struct clientk_value value = {0};
    char text[24];
    bool found;
    for (int i = 0; i < ENTRIES; i++) {
        struct kv_slice key = key_of(i, text);
        struct clientk_write_options put = {.if_absent = i % 5 == 1, .if_present = i % 5 == 2};
        clientk_put(client, key, key, &put, NULL);
        clientk_get(client, key, &value);
        if (i % 3 == 0)
            clientk_exchange(client, key, kv_slice_from_string("other"), NULL, &value, &found,
                             NULL);
        if (i % 3 == 1)
            clientk_exists(client, key, &value);
        if (i % 4 == 3)
            clientk_delete(client, key, NULL, NULL);
        if (i % 4 == 1)
            clientk_touch(client, key, SOME_EXPIRY, NULL, NULL);
    }
    clientk_add(client, kv_slice_from_string("counter"), 5, NULL, NULL, NULL);
    clientk_append(client, kv_slice_from_string("text"), kv_slice_from_string("more"), NULL, NULL,
                   NULL);
    clientk_scan(client, kv_slice(NULL, 0), false, NULL, 200, visit, NULL);
    clientk_scan(client, kv_slice_from_string("rec"), true, NULL, 10, visit, NULL);
    clientk_scan_atomic(client, kv_slice_from_string("recorded"), false, visit, NULL);
    clientk_stats(client, NULL, &value);
    clientk_stats(client, "sessions", &value);
    clientk_value_free(&value);
    enum kv_status status = batch(client);
    if (status == KV_OK)
        status = clientk_sync(client);
    return status == KV_OK ? clientk_ping(client, NULL) : status;
}

static enum kv_status large_work(struct clientk *client)
{
    static char bytes[LARGER_BYTES];
    static const size_t sizes[] = {900, 5000, LARGE_BYTES, LARGER_BYTES};
    struct clientk_value value = {0};
    enum kv_status status = KV_OK;
    memset(bytes, 'v', sizeof bytes);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && status == KV_OK; i++) {
        char text[24];
        struct kv_slice key = key_of(1000 + (int)i, text);
        status = clientk_put(client, key, kv_slice(bytes, sizes[i]), NULL, NULL);
        if (status == KV_OK)
            status = clientk_get(client, key, &value);
        if (status == KV_OK && value.size != sizes[i])
            status = KV_CORRUPT;
    }
    clientk_value_free(&value);
    return status;
}

static bool record_session(const char *queue, bool with_segment)
{
    struct clientk_options options = {.queue = queue};
    struct clientk *client = NULL;
    struct kv_error error = {0};
    if (with_segment)
        unsetenv("MQKV_NO_SEGMENT");
    else
        setenv("MQKV_NO_SEGMENT", "1", 1);
    enum kv_status status = clientk_open(&options, &client, &error);
    if (status != KV_OK) {
        fprintf(stderr, "recording: %s\n", error.text);
        return false;
    }
    status = small_work(client);
    if (status == KV_OK)
        status = large_work(client);
    if (status != KV_OK)
        fprintf(stderr, "recording: %s: %s\n", kv_status_text(status), clientk_last_error());
    clientk_close(client);
    return status == KV_OK;
}

/* SEGMENT only where the server takes segments of this user. */
static bool has_all_kinds(const struct recording *recording)
{
    static const enum wire_kind needed[] = {WIRE_HELLO, WIRE_REQUEST, WIRE_BYE, WIRE_PART,
                                            WIRE_MORE};
    uint32_t seen = 0;
    for (size_t i = 0; i < recording->count; i++)
        if (recording->messages[i].size > KIND_OFFSET)
            seen |= 1u << (recording->messages[i].bytes[KIND_OFFSET] % 32);
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!(seen & (1u << needed[i]))) {
            fprintf(stderr, "recording: no message of kind %d was sent\n", (int)needed[i]);
            return false;
        }
    return true;
}

bool recording_make(struct recording *recording, const char *queue)
{
    recording->on = true;
    bool made = record_session(queue, true) && record_session(queue, false);
    recording->on = false;
    return made && has_all_kinds(recording);
}

void recording_free(struct recording *recording)
{
    for (size_t i = 0; i < recording->count; i++)
        free(recording->messages[i].bytes);
    *recording = (struct recording){0};
}

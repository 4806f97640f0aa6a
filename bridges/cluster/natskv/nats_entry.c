#include "bridges/cluster/natskv/nats_entry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_json.h"

/* An error code of JetStream. */
#define NO_MESSAGE_FOUND 10037u

#define HEADER_EXPIRY         "Mqkv-Expiry"
#define HEADER_ID             "Nats-Msg-Id"
#define HEADER_EXPECTED       "Nats-Expected-Last-Subject-Sequence"
#define HEADER_EXPECTED_OF    "Nats-Expected-Last-Subject-Sequence-Subject"
#define HEADER_OPERATION      "KV-Operation"
#define HEADER_MARKER         "Nats-Marker-Reason"
#define HEADER_BATCH          "Nats-Batch-Id"
#define HEADER_BATCH_SEQUENCE "Nats-Batch-Sequence"
#define HEADER_BATCH_COMMIT   "Nats-Batch-Commit"

void nats_entry_free(struct nats_entry *entry)
{
    free(entry->own);
    *entry = (struct nats_entry){0};
}

/* Takes one line of a header. */
static void take_header(struct nats_entry *entry, const char *name, const char *value)
{
    if (strcasecmp(name, HEADER_EXPIRY) == 0)
        entry->expiry_ms = strtoull(value, NULL, 10);
    else if (strcasecmp(name, HEADER_OPERATION) == 0 || strcasecmp(name, HEADER_MARKER) == 0)
        entry->present =
            false; /* DEL, PURGE, or the marker that the server left for an expired entry */
    else if (strcasecmp(name, HEADER_ID) == 0 && strlen(value) < sizeof entry->message_id)
        strcpy(entry->message_id, value);
}

static void look_at_expiry(struct nats_entry *entry)
{
    if (entry->expiry_ms != 0 && entry->expiry_ms <= clock_realtime_ms())
        entry->present = false;
}

/* Decodes a member; the result ends with a NUL. NULL: out of memory, or malformed. */
static uint8_t *decode(struct kv_slice text, size_t *size)
{
    uint8_t *bytes = malloc(text.size / 4 * 3 + 1);
    if (bytes && !nats_json_base64(text, bytes, size)) {
        free(bytes);
        return NULL;
    }
    if (bytes)
        bytes[*size] = '\0';
    return bytes;
}

enum kv_status nats_entry_from_json(struct kv_slice answer, struct nats_entry *entry)
{
    uint64_t code = 0;
    struct kv_slice text, error = nats_json_member(answer, "error");
    struct kv_slice message = nats_json_member(answer, "message");
    *entry = (struct nats_entry){0};
    if (error.size > 0) {
        nats_json_number(error, "err_code", &code);
        if (code == NO_MESSAGE_FOUND)
            return KV_OK;
        return nats_json_number(error, "code", &code) && code == 503 ? KV_NO_SERVER : KV_IO;
    }
    if (!nats_json_number(message, "seq", &entry->sequence) || entry->sequence == 0)
        return KV_IO;
    entry->present = true;
    size_t size = 0;
    if (nats_json_string(message, "hdrs", &text)) {
        char *headers = (char *)decode(text, &size);
        if (!headers)
            return KV_IO;
        /* "NATS/1.0\r\nName: value\r\n...\r\n\r\n", with a NUL at the end */
        char *rest = NULL;
        for (char *line = strtok_r(headers, "\r\n", &rest); line;
             line = strtok_r(NULL, "\r\n", &rest)) {
            char *colon = strchr(line, ':');
            if (!colon)
                continue;
            *colon++ = '\0';
            take_header(entry, line, colon + strspn(colon, " \t"));
        }
        free(headers);
    }
    if (nats_json_string(message, "data", &text)) {
        entry->own = decode(text, &size);
        if (!entry->own)
            return KV_IO;
        entry->value = kv_slice(entry->own, size);
    }
    look_at_expiry(entry);
    return KV_OK;
}

unsigned nats_entry_status(natsMsg *message)
{
    const char *status;
    if (natsMsgHeader_Get(message, "Status", &status) != NATS_OK)
        return 0;
    return (unsigned)strtoul(status, NULL, 10);
}

const char *nats_entry_added(natsMsg *message, const char *name)
{
    const char **values = NULL, *last = NULL;
    int count = 0;
    if (natsMsgHeader_Values(message, name, &values, &count) != NATS_OK)
        return NULL;
    if (count > 0)
        last = values[count - 1];
    free(values);
    return last;
}

enum kv_status nats_entry_from_message(natsMsg *message, bool owned, struct nats_entry *entry)
{
    static const char *const names[] = {HEADER_EXPIRY, HEADER_OPERATION, HEADER_MARKER, HEADER_ID};
    const char *value;
    *entry = (struct nats_entry){0};
    unsigned status = nats_entry_status(message);
    if (status != 0)
        return status == 404 ? KV_OK : status == 503 ? KV_NO_SERVER : KV_IO;
    const char *sequence = nats_entry_added(message, "Nats-Sequence");
    if (!sequence)
        return KV_IO;
    entry->sequence = strtoull(sequence, NULL, 10);
    entry->present = true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (natsMsgHeader_Get(message, names[i], &value) == NATS_OK)
            take_header(entry, names[i], value);
    entry->value = kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
    if (owned && entry->value.size > 0) {
        entry->own = malloc(entry->value.size);
        if (!entry->own)
            return KV_NO_MEMORY;
        memcpy(entry->own, entry->value.data, entry->value.size);
        entry->value.data = entry->own;
    }
    look_at_expiry(entry);
    return entry->sequence > 0 ? KV_OK : KV_IO;
}

void nats_entry_headers(natsMsg *message, bool *tombstone, uint64_t *expiry_ms)
{
    const char *value;
    *expiry_ms = 0;
    *tombstone = natsMsgHeader_Get(message, HEADER_OPERATION, &value) == NATS_OK ||
                 natsMsgHeader_Get(message, HEADER_MARKER, &value) == NATS_OK;
    if (natsMsgHeader_Get(message, HEADER_EXPIRY, &value) == NATS_OK)
        *expiry_ms = strtoull(value, NULL, 10);
}

static bool set_number(natsMsg *message, const char *name, uint64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, number);
    return natsMsgHeader_Set(message, name, text) == NATS_OK;
}

static bool set_batch(natsMsg *message, const struct nats_batch_place *batch)
{
    return natsMsgHeader_Set(message, HEADER_BATCH, batch->id) == NATS_OK &&
           set_number(message, HEADER_BATCH_SEQUENCE, batch->sequence) &&
           (!batch->commits || set_number(message, HEADER_BATCH_COMMIT, 1));
}

static bool set_headers(natsMsg *message, const struct nats_writing *writing)
{
    bool expires = writing->expiry_ms != 0 && !writing->tombstone;
    if (natsMsgHeader_Set(message, HEADER_ID, writing->message_id) != NATS_OK)
        return false;
    if (writing->conditional && !set_number(message, HEADER_EXPECTED, writing->sequence))
        return false;
    if (writing->conditional && writing->expected_of &&
        natsMsgHeader_Set(message, HEADER_EXPECTED_OF, writing->expected_of) != NATS_OK)
        return false;
    if (expires && !set_number(message, HEADER_EXPIRY, writing->expiry_ms))
        return false;
    if (writing->batch && !set_batch(message, writing->batch))
        return false;
    return !writing->tombstone || natsMsgHeader_Set(message, HEADER_OPERATION, "DEL") == NATS_OK;
}

bool nats_entry_to_message(const struct nats_writing *writing, const char *reply, natsMsg **message)
{
    struct kv_slice value = writing->tombstone ? kv_slice(NULL, 0) : writing->value;
    if (natsMsg_Create(message, writing->subject, reply, value.data, (int)value.size) != NATS_OK)
        return false;
    if (set_headers(*message, writing))
        return true;
    natsMsg_Destroy(*message);
    *message = NULL;
    return false;
}

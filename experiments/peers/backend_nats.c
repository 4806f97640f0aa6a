/* A NATS JetStream cluster through libnats, its own C client: what a program does that uses the
 * streams of `serverk --engine nats` without serverk. -m is URL,BUCKET,SHARDS,leader|direct: reads
 * ask the leader of a stream, or any replica. ADD is the loop of that client: read, and write on
 * condition that nothing has changed since. Keys and values are those of the bench, plain letters.
 */
#include "common/report/error.h"
#include "experiments/peers/backend_versioned.h"

#include <inttypes.h>
#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define WAIT_MS       5000
#define SUBJECT_BYTES 256u

struct peer_nats {
    natsConnection *connection;
    char bucket[65];
    uint32_t shards;
    bool direct;
};

void *backend_connect(const char *address, struct kv_error *error)
{
    char url[256], way[16];
    struct peer_nats *peer = calloc(1, sizeof *peer);
    if (peer &&
        sscanf(address, "%255[^,],%64[^,],%" SCNu32 ",%15s", url, peer->bucket, &peer->shards,
               way) == 4 &&
        peer->shards > 0 && natsConnection_ConnectTo(&peer->connection, url) == NATS_OK) {
        peer->direct = strcmp(way, "direct") == 0;
        return peer;
    }
    free(peer);
    kv_error_set(error, KV_NO_SERVER, "%s: no connection to URL,BUCKET,SHARDS,leader|direct",
                 address);
    return NULL;
}

void backend_disconnect(void *connection)
{
    struct peer_nats *peer = connection;
    natsConnection_Destroy(peer->connection);
    free(peer);
}

static uint32_t subject_of(const struct peer_nats *peer, struct kv_slice key,
                           char subject[SUBJECT_BYTES])
{
    uint32_t shard = (uint32_t)(XXH3_64bits(key.data, key.size) % peer->shards);
    snprintf(subject, SUBJECT_BYTES, "$KV.%s_%" PRIu32 ".%.*s", peer->bucket, shard, (int)key.size,
             (const char *)key.data);
    return shard;
}

/* The number behind a name in JSON; false: there is none. */
static bool number_in(const char *json, int size, const char *name, uint64_t *number)
{
    const char *at = memmem(json, (size_t)size, name, strlen(name));
    if (!at)
        return false;
    *number = strtoull(at + strlen(name), NULL, 10);
    return true;
}

/* Publishes as a request; *refused: the server's condition does not hold. */
enum kv_status versioned_put(void *connection, struct kv_slice key, struct kv_slice value,
                             const uint64_t *expected, bool *refused)
{
    struct peer_nats *peer = connection;
    char subject[SUBJECT_BYTES], number[24];
    natsMsg *message = NULL, *answer = NULL;
    uint64_t sequence = 0;
    enum kv_status status = KV_IO;
    subject_of(peer, key, subject);
    if (natsMsg_Create(&message, subject, NULL, value.data, (int)value.size) != NATS_OK)
        return KV_NO_MEMORY;
    if (expected) {
        snprintf(number, sizeof number, "%" PRIu64, *expected);
        natsMsgHeader_Set(message, "Nats-Expected-Last-Subject-Sequence", number);
    }
    if (natsConnection_RequestMsg(&answer, peer->connection, message, WAIT_MS) == NATS_OK) {
        const char *json = natsMsg_GetData(answer);
        int size = natsMsg_GetDataLength(answer);
        uint64_t code = 0;
        *refused =
            number_in(json, size, "\"err_code\":", &code) && (code == 10071 || code == 10164);
        if (*refused || (code == 0 && number_in(json, size, "\"seq\":", &sequence)))
            status = KV_OK;
    }
    natsMsg_Destroy(answer);
    natsMsg_Destroy(message);
    return status;
}

/* The entry: its sequence (0: none); its bytes if they come as they are, else as JSON. */
enum kv_status versioned_get(void *connection, struct kv_slice key, uint64_t *sequence,
                             struct clientk_value *value)
{
    struct peer_nats *peer = connection;
    char subject[SUBJECT_BYTES], json[SUBJECT_BYTES + 32], api[128];
    natsMsg *answer = NULL;
    const char *header = NULL;
    uint32_t shard = subject_of(peer, key, subject);
    snprintf(api, sizeof api, "$JS.API.%s.KV_%s_%" PRIu32,
             peer->direct ? "DIRECT.GET" : "STREAM.MSG.GET", peer->bucket, shard);
    snprintf(json, sizeof json, "{\"last_by_subj\":\"%s\"}", subject);
    *sequence = 0;
    if (natsConnection_RequestString(&answer, peer->connection, api, json, WAIT_MS) != NATS_OK)
        return KV_IO;
    const char *data = natsMsg_GetData(answer);
    int size = natsMsg_GetDataLength(answer);
    if (!peer->direct)
        number_in(data, size, "\"seq\":", sequence);
    else if (natsMsgHeader_Get(answer, "Nats-Sequence", &header) == NATS_OK)
        *sequence = strtoull(header, NULL, 10);
    enum kv_status status = *sequence > 0 ? backend_set_value(value, data, (size_t)size) : KV_OK;
    natsMsg_Destroy(answer);
    return status;
}

/* A number, which comes in base64 from a leader. */
int64_t versioned_number(const void *connection, const struct clientk_value *value)
{
    const struct peer_nats *peer = connection;
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = value->data;
    char number[32];
    size_t used = 0;
    unsigned bits = 0, group = 0;
    if (peer->direct)
        return strtoll(text, NULL, 10);
    const char *data = strstr(text, "\"data\":\"");
    for (data = data ? data + 8 : ""; *data && *data != '"' && used < sizeof number - 1; data++) {
        const char *digit = strchr(digits, *data);
        group = group << 6 | (unsigned)(digit ? digit - digits : 0);
        bits += 6;
        if (bits >= 8)
            number[used++] = (char)(group >> (bits -= 8) & 255);
    }
    number[used] = '\0';
    return strtoll(number, NULL, 10);
}

/* etcd through its JSON gateway and libcurl: C has no client of its own for it. -m is HOST:PORT of
 * a server. The gateway is a part of the server's process; a program in Go, over gRPC, spares the
 * server the JSON. A write on condition is a transaction that compares the revision. Keys and
 * values are those of the bench, plain letters.
 */
#include "common/report/error.h"
#include "experiments/peers/backend_versioned.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS      5000L
#define NUMBER_BYTES 24u

/* Grows; ends with a NUL. */
struct text {
    char *data;
    size_t size, capacity;
};

struct peer_etcd {
    CURL *http;
    struct curl_slist *headers;
    char address[128];
    struct text request, answer;
};

static bool reserve(struct text *text, size_t more)
{
    size_t needed = text->size + more + 1;
    if (needed <= text->capacity)
        return true;
    char *data = realloc(text->data, 2 * needed);
    if (!data)
        return false;
    text->data = data;
    text->capacity = 2 * needed;
    return true;
}

static bool add_bytes(struct text *text, const void *data, size_t size)
{
    if (!reserve(text, size))
        return false;
    memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
    return true;
}

static bool add_text(struct text *text, const char *more)
{
    return add_bytes(text, more, strlen(more));
}

static bool add_base64(struct text *text, struct kv_slice bytes)
{
    if (!reserve(text, (bytes.size + 2) / 3 * 4))
        return false;
    text->size += (size_t)EVP_EncodeBlock((unsigned char *)text->data + text->size, bytes.data,
                                          (int)bytes.size);
    return true;
}

/* A curl_write_callback. */
static size_t take_bytes(char *data, size_t one, size_t size, void *context)
{
    (void)one;
    return add_bytes(context, data, size) ? size : 0;
}

void backend_disconnect(void *connection)
{
    struct peer_etcd *peer = connection;
    curl_slist_free_all(peer->headers);
    curl_easy_cleanup(peer->http);
    free(peer->request.data);
    free(peer->answer.data);
    free(peer);
}

void *backend_connect(const char *address, struct kv_error *error)
{
    struct peer_etcd *peer = calloc(1, sizeof *peer);
    if (peer) {
        peer->http = curl_easy_init();
        peer->headers = curl_slist_append(NULL, "Content-Type: application/json");
        snprintf(peer->address, sizeof peer->address, "%s", address);
    }
    if (!peer || !peer->http || !peer->headers) {
        kv_error_set(error, KV_NO_MEMORY, "out of memory");
        if (peer)
            backend_disconnect(peer);
        return NULL;
    }
    curl_easy_setopt(peer->http, CURLOPT_HTTPHEADER, peer->headers);
    curl_easy_setopt(peer->http, CURLOPT_TIMEOUT_MS, WAIT_MS);
    curl_easy_setopt(peer->http, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(peer->http, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(peer->http, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(peer->http, CURLOPT_WRITEDATA, &peer->answer);
    return peer;
}

/* Posts the request, and empties it; the answer is in peer->answer. */
static enum kv_status ask(struct peer_etcd *peer, const char *call)
{
    char url[192];
    snprintf(url, sizeof url, "http://%s/v3/kv/%s", peer->address, call);
    peer->answer.size = 0;
    curl_easy_setopt(peer->http, CURLOPT_URL, url);
    curl_easy_setopt(peer->http, CURLOPT_POSTFIELDS, peer->request.data);
    curl_easy_setopt(peer->http, CURLOPT_POSTFIELDSIZE, (long)peer->request.size);
    CURLcode code = curl_easy_perform(peer->http);
    peer->request.size = 0;
    return code == CURLE_OK && peer->answer.size > 0 ? KV_OK : KV_IO;
}

static bool add_put(struct text *request, struct kv_slice key, struct kv_slice value)
{
    return add_text(request, "{\"key\":\"") && add_base64(request, key) &&
           add_text(request, "\",\"value\":\"") && add_base64(request, value) &&
           add_text(request, "\"}");
}

/* Writes if the key still has that revision; 0: if there is none. */
static enum kv_status put_if(struct peer_etcd *peer, struct kv_slice key, struct kv_slice value,
                             uint64_t revision, bool *refused)
{
    char number[NUMBER_BYTES];
    struct text *request = &peer->request;
    snprintf(number, sizeof number, "%" PRIu64, revision);
    if (!add_text(request, "{\"compare\":[{\"target\":\"MOD\",\"key\":\"") ||
        !add_base64(request, key) || !add_text(request, "\",\"mod_revision\":\"") ||
        !add_text(request, number) || !add_text(request, "\"}],\"success\":[{\"requestPut\":") ||
        !add_put(request, key, value) || !add_text(request, "}]}"))
        return KV_NO_MEMORY;
    enum kv_status status = ask(peer, "txn");
    *refused = status == KV_OK && !strstr(peer->answer.data, "\"succeeded\":true");
    return status;
}

enum kv_status versioned_put(void *connection, struct kv_slice key, struct kv_slice value,
                             const uint64_t *expected, bool *refused)
{
    struct peer_etcd *peer = connection;
    if (expected)
        return put_if(peer, key, value, *expected, refused);
    return add_put(&peer->request, key, value) ? ask(peer, "put") : KV_NO_MEMORY;
}

/* The text behind "name":" in the answer, up to the next quote. False: there is none. */
static bool find_member(const struct peer_etcd *peer, const char *name, struct kv_slice *text)
{
    char wanted[40];
    int size = snprintf(wanted, sizeof wanted, "\"%s\":\"", name);
    const char *begin = strstr(peer->answer.data, wanted);
    const char *end = begin ? strchr(begin + size, '"') : NULL;
    if (!end)
        return false;
    *text = kv_slice(begin + size, (size_t)(end - begin - size));
    return true;
}

static enum kv_status decode(struct kv_slice text, struct clientk_value *value)
{
    size_t size = text.size / 4 * 3;
    unsigned char *bytes = malloc(size + 1);
    if (!bytes)
        return KV_NO_MEMORY;
    enum kv_status status = KV_IO;
    if (EVP_DecodeBlock(bytes, text.data, (int)text.size) == (int)size) {
        for (size_t i = text.size; i > 0 && ((const char *)text.data)[i - 1] == '='; i--)
            size--;
        status = backend_set_value(value, bytes, size);
    }
    free(bytes);
    return status;
}

/* The entry; *revision 0: there is none. */
enum kv_status versioned_get(void *connection, struct kv_slice key, uint64_t *revision,
                             struct clientk_value *value)
{
    struct peer_etcd *peer = connection;
    struct kv_slice text;
    *revision = 0;
    if (!add_text(&peer->request, "{\"key\":\"") || !add_base64(&peer->request, key) ||
        !add_text(&peer->request, "\"}"))
        return KV_NO_MEMORY;
    enum kv_status status = ask(peer, "range");
    if (status != KV_OK || !find_member(peer, "mod_revision", &text))
        return status;
    *revision = strtoull(text.data, NULL, 10);
    /* No member stands for an empty value. */
    return decode(find_member(peer, "value", &text) ? text : kv_slice("", 0), value);
}

int64_t versioned_number(const void *connection, const struct clientk_value *value)
{
    char text[NUMBER_BYTES];
    (void)connection;
    snprintf(text, sizeof text, "%.*s", (int)value->size, (const char *)value->data);
    return strtoll(text, NULL, 10);
}

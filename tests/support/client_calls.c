#include "tests/support/client_calls.h"

#include <stdlib.h>
#include <string.h>

struct clientk *must_connect_with(const struct clientk_options *options)
{
    struct clientk *client = NULL;
    struct kv_error error = {.status = KV_OK};
    enum kv_status status = clientk_open(options, &client, &error);
    ck_assert_msg(status == KV_OK, "clientk_open gave %s (%s)", kv_status_name(status), error.text);
    return client;
}

struct clientk *must_connect(const char *queue)
{
    struct clientk_options options = {.queue = queue, .timeout_ms = 300000};
    return must_connect_with(&options);
}

void must_put_text(struct clientk *client, const char *key, const char *value)
{
    assert_status(
        clientk_put(client, kv_slice_from_string(key), kv_slice_from_string(value), NULL, NULL),
        KV_OK);
}

void assert_text(struct clientk *client, const char *key, const char *expected)
{
    struct clientk_value value = {.size = 0};
    assert_status(clientk_get(client, kv_slice_from_string(key), &value), KV_OK);
    ck_assert_uint_eq(value.size, strlen(expected));
    ck_assert_str_eq(value.data, expected);
    clientk_value_free(&value);
}

char *patterned_bytes(size_t size, unsigned seed)
{
    char *bytes = malloc(size + 1);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i * 7 + i / 251 + seed * 31);
    return bytes;
}

/*
 * hello: stores a value and reads it back. With mqkv installed:
 *     cc hello.c $(pkg-config --cflags --libs libclientk) -o hello
 */
#include <mqkv/clientk.h>
#include <stdio.h>

int main(void)
{
    struct clientk *client;
    struct kv_error error = {0};
    if (clientk_open(NULL, &client, &error) != KV_OK) {
        fprintf(stderr, "hello: %s\n", error.text);
        return 3;
    }

    struct kv_slice key = kv_slice_from_string("name");
    struct clientk_value value = {0};
    enum kv_status status = clientk_put(client, key, kv_slice_from_string("Ada"), NULL, NULL);
    if (status == KV_OK)
        status = clientk_get(client, key, &value);
    if (status == KV_OK)
        printf("Hello, %s (version %llu)!\n", (char *)value.data,
               (unsigned long long)value.version);
    else
        fprintf(stderr, "hello: %s\n", clientk_last_error());

    clientk_value_free(&value);
    clientk_close(client);
    return status == KV_OK ? 0 : 4;
}

/*
 * library_unload: a plugin's life: loads a shared library, uses it in a thread, unloads it, and
 * lets the thread end.
 *
 *     library_unload LIBCLIENTK.SO QUEUE [keys]
 *     library_unload LIBKVSTORE.SO DIRECTORY
 *
 * With `keys` the process has no thread-specific key left at first: then the library must say so.
 */
#include <dlfcn.h>
#include <err.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "mqkv/kvstore.h"

static void *library;
static const char *place;
static sem_t used, unloaded;

/* A function of the library, as the type of the variable that it is for. */
#define FIND(variable, name)                        \
    __typeof__(name) *variable;                     \
    do {                                            \
        void *found = dlsym(library, #name);        \
        if (!found)                                 \
            errx(1, "%s", dlerror());               \
        memcpy(&variable, &found, sizeof variable); \
    } while (0)

static void *use_client(void *context)
{
    FIND(open_client, clientk_open);
    FIND(put, clientk_put);
    struct clientk_options options = {.queue = place};
    struct clientk *client;
    struct kv_error error = {0};
    if (open_client(&options, &client, &error) != KV_OK)
        errx(1, "%s", error.text);
    if (put(client, kv_slice_from_string("k"), kv_slice_from_string("v"), NULL, NULL) != KV_OK)
        errx(1, "the put failed");
    sem_post(&used);
    sem_wait(&unloaded);
    return context; /* the handle stays open: the thread is attached to it */
}

static void *use_store(void *context)
{
    FIND(open_store, kvstore_open);
    FIND(put, kvstore_put);
    FIND(get, kvstore_get);
    FIND(close_store, kvstore_close);
    struct kvstore_options options = {
        .create = true, .io = KVSTORE_IO_PREAD, .locking = KVSTORE_OPTIMISTIC};
    struct kvstore *store;
    struct kv_error error = {0};
    char value[16];
    if (open_store(place, &options, &store, &error) != KV_OK)
        errx(1, "%s", error.text);
    struct kv_slice key = kv_slice_from_string("k");
    if (put(store, key, kv_slice_from_string("v"), NULL, NULL) != KV_OK ||
        get(store, key, value, sizeof value, NULL) != KV_OK || close_store(store, &error) != KV_OK)
        errx(1, "a call failed");
    sem_post(&used);
    sem_wait(&unloaded);
    return context;
}

static void refuse_without_keys(void)
{
    FIND(open_client, clientk_open);
    pthread_key_t last = 0, key;
    while (pthread_key_create(&key, NULL) == 0)
        last = key;
    struct clientk_options options = {.queue = place};
    struct clientk *client;
    struct kv_error error = {0};
    enum kv_status status = open_client(&options, &client, &error);
    if (status != KV_LIMIT || !strstr(error.text, "PTHREAD_KEYS_MAX"))
        errx(1, "without keys: status %d (%s)", (int)status, error.text);
    pthread_key_delete(last);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        errx(2, "usage: library_unload LIBRARY.so QUEUE|DIRECTORY [keys]");
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        errx(1, "%s", dlerror());
    place = argv[2];
    if (argc > 3)
        refuse_without_keys();
    sem_init(&used, 0, 0);
    sem_init(&unloaded, 0, 0);
    pthread_t thread;
    bool is_client = dlsym(library, "clientk_open") != NULL;
    if (pthread_create(&thread, NULL, is_client ? use_client : use_store, NULL) != 0)
        errx(1, "no thread");
    sem_wait(&used);
    dlclose(library);
    sem_post(&unloaded);
    pthread_join(thread, NULL);
    puts("unloaded");
    return 0;
}

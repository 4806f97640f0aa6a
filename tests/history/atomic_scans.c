/*
 * atomic_scans QUEUE SCANS: each of some writers gives its keys the number of its round, one after
 * the other and each when the one before is acknowledged; scanners list all keys with atomic scans
 * meanwhile. In a store of one data file a scan is one moment: of a writer's keys the first ones
 * have its round, the rest the one before. Prints how many scans there were, and how many met a
 * round half done; exits 1 if one shows what no moment was, and 2 if a call failed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "common/text/parse.h"

#define WRITERS  3
#define SCANNERS 3
#define KEYS     40 /* of a writer */

static struct clientk *client;
static atomic_bool done;
static atomic_int worst;
static _Atomic uint64_t scans, between;
static uint64_t scans_wanted;

static void fail(int code, const char *what)
{
    fprintf(stderr, "atomic_scans: %s\n", what);
    atomic_store(&worst, code);
    atomic_store(&done, true);
}

static bool put_round(int writer, unsigned long round)
{
    char key[32], value[32];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "w%d.%d", writer, i);
        snprintf(value, sizeof value, "%lu", round);
        if (clientk_put(client, kv_slice_from_string(key), kv_slice_from_string(value), NULL,
                        NULL) != KV_OK)
            return false;
    }
    return true;
}

static void *write_rounds(void *number)
{
    int writer = *(int *)number;
    for (unsigned long round = 2; !atomic_load(&done); round++)
        if (!put_round(writer, round))
            fail(2, clientk_last_error());
    return NULL;
}

struct moment {
    unsigned long rounds[WRITERS][KEYS];
    bool foreign;
};

static bool note_entry(void *context, const struct clientk_entry *entry)
{
    struct moment *moment = context;
    char text[64];
    int writer, key;
    unsigned long round;
    snprintf(text, sizeof text, "%.*s %.*s", (int)entry->key.size, (const char *)entry->key.data,
             (int)entry->value.size, (const char *)entry->value.data);
    if (sscanf(text, "w%d.%d %lu", &writer, &key, &round) != 3 || writer < 0 || writer >= WRITERS ||
        key < 0 || key >= KEYS || moment->rounds[writer][key] != 0)
        moment->foreign = true; /* of nobody, or there twice */
    else
        moment->rounds[writer][key] = round;
    return true;
}

/* True if there was such a moment; counts those in the middle of a round. */
static bool was_a_moment(const struct moment *moment)
{
    bool in_between = false;
    for (int writer = 0; writer < WRITERS; writer++) {
        const unsigned long *rounds = moment->rounds[writer];
        for (int i = 1; i < KEYS; i++)
            if (rounds[i] > rounds[i - 1])
                return false;
        if (rounds[KEYS - 1] == 0 || rounds[0] - rounds[KEYS - 1] > 1)
            return false;
        in_between = in_between || rounds[0] != rounds[KEYS - 1];
    }
    between += in_between;
    return !moment->foreign;
}

static void *scan(void *unused)
{
    (void)unused;
    while (!atomic_load(&done)) {
        struct moment moment = {0};
        if (clientk_scan_atomic(client, kv_slice(NULL, 0), false, note_entry, &moment) != KV_OK)
            fail(2, clientk_last_error());
        else if (!was_a_moment(&moment))
            fail(1, "a scan shows what no moment was");
        if (++scans >= scans_wanted)
            atomic_store(&done, true);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct kv_error error = {0};
    if (argc != 3 || !parse_u64(argv[2], 1, UINT64_MAX, &scans_wanted)) {
        fprintf(stderr, "usage: atomic_scans /QUEUE SCANS\n");
        return 2;
    }
    struct clientk_options options = {.queue = argv[1], .timeout_ms = 60000};
    if (clientk_open(&options, &client, &error) != KV_OK) {
        fprintf(stderr, "atomic_scans: %s\n", error.text);
        return 2;
    }
    int numbers[WRITERS];
    pthread_t threads[WRITERS + SCANNERS];
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        if (!put_round(i, 1))
            fail(2, clientk_last_error());
    }
    for (int i = 0; i < WRITERS + SCANNERS; i++)
        if (pthread_create(&threads[i], NULL, i < WRITERS ? write_rounds : scan,
                           i < WRITERS ? &numbers[i] : NULL) != 0)
            abort();
    for (int i = 0; i < WRITERS + SCANNERS; i++)
        pthread_join(threads[i], NULL);
    clientk_close(client);
    printf("%llu atomic scans, %llu of them in the middle of a round\n", (unsigned long long)scans,
           (unsigned long long)between);
    return atomic_load(&worst);
}

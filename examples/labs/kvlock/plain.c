/*
 * Clerk and lock over mqkv: a serverk of its own is the server, and each thread has a client.
 * Beside the lock each thread adds to a number that nothing else guards.
 */
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kv.h"
#include "mqkv/clientk.h"

#define THREADS 3
#define TURNS   20

static char queue[32];
static _Thread_local struct clientk *client;
static long sum; /* guarded by the lock */

static enum kv_answer answer_of(enum kv_status status)
{
    switch (status) {
    case KV_OK:
        return ANSWER_OK;
    case KV_NOT_FOUND:
        return ANSWER_NO_KEY;
    case KV_EXISTS:
    case KV_VERSION_MISMATCH:
        return ANSWER_VERSION;
    default:
        errx(1, "mqkv says %s", kv_status_name(status));
    }
}

bool network_call(const struct kv_request *request, struct kv_reply *reply)
{
    struct clientk_value value = {0};
    struct kv_slice key = kv_slice_from_string(request->key);
    enum kv_status status;
    memset(reply, 0, sizeof *reply);
    if (request->is_put) {
        struct clientk_write_options options = {.if_version = request->version,
                                                .if_absent = request->version == 0};
        status = clientk_put(client, key, kv_slice_from_string(request->value), &options, NULL);
    } else {
        status = clientk_get(client, key, &value);
        snprintf(reply->value, sizeof reply->value, "%.*s", (int)value.size,
                 status == KV_OK ? (const char *)value.data : "");
        reply->version = value.version;
        clientk_value_free(&value);
    }
    if (status == KV_TIMEOUT)
        return false;
    reply->answer = answer_of(status);
    return true;
}

void network_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void *add(void *number)
{
    char owner[KV_TEXT_BYTES];
    struct kv_error error;
    struct clientk_options options = {.queue = queue};
    snprintf(owner, sizeof owner, "thread %d", *(int *)number);
    if (clientk_open(&options, &client, &error) != KV_OK)
        errx(1, "%s", error.text);
    for (int i = 0; i < TURNS; i++) {
        lock_acquire("lock", owner);
        long now = __atomic_load_n(&sum, __ATOMIC_RELAXED);
        network_pause();
        __atomic_store_n(&sum, now + 1, __ATOMIC_RELAXED);
        lock_release("lock", owner);
    }
    clientk_close(client);
    return NULL;
}

static pid_t start_serverk(void)
{
    snprintf(queue, sizeof queue, "/lab-kvlock-%d", (int)getpid());
    if (mkdir("store", 0700) != 0)
        err(2, "store");
    pid_t child = fork();
    if (child == 0) {
        execl(SERVERK, "serverk", "-m", queue, "-f", "store", "-d", "1", (char *)NULL);
        err(127, "%s", SERVERK);
    }
    return child;
}

int main(int count, char **words)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    if (count != 2 || strcmp(words[1], "mqkv") != 0)
        errx(2, "usage: plain mqkv");
    pid_t serverk = start_serverk();
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, add, &numbers[i]) != 0)
            err(2, "pthread_create");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    kill(serverk, SIGTERM);
    waitpid(serverk, NULL, 0);
    if (sum != THREADS * TURNS)
        errx(1, "of %d that were added under the lock %ld are there", THREADS * TURNS, sum);
    puts("mqkv: done");
    return 0;
}

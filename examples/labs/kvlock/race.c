/*
 * Requests after one another, in threads that nothing but the server puts in order: the flag
 * between them is relaxed. So the thread sanitizer finds a race whenever there is one, not by luck.
 */
#include <err.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "server.h"

#define TURNS 12

static struct kv_server server;
static atomic_int turn;

bool network_call(const struct kv_request *request, struct kv_reply *reply)
{
    kv_server_execute(&server, request, reply);
    return true;
}

void network_pause(void)
{
    sched_yield();
}

static void *take_turns(void *number)
{
    char value[KV_TEXT_BYTES];
    uint64_t version = 0;
    for (int i = *(int *)number; i < TURNS; i += 2) {
        while (atomic_load_explicit(&turn, memory_order_relaxed) != i)
            sched_yield();
        if (i % 4 < 2 && clerk_get("a", value, &version) == ANSWER_NO_KEY)
            version = 0;
        clerk_put("a", "x", version);
        atomic_store_explicit(&turn, i + 1, memory_order_relaxed);
    }
    return NULL;
}

int main(int count, char **words)
{
    pthread_t threads[2];
    int numbers[] = {0, 1};
    if (count != 2 || strcmp(words[1], "race") != 0)
        errx(2, "usage: race race");
    kv_server_init(&server);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, take_turns, &numbers[i]) != 0)
            err(2, "pthread_create");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    kv_server_destroy(&server);
    puts("race: done");
    return 0;
}

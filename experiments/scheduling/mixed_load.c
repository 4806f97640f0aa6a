/*
 * mixed_load: the load of the study `scheduling`: clients whose requests differ in work and
 * priority, in a closed loop, each with a session of its own.
 *
 *     mixed_load QUEUE CLIENTS SECONDS SEED [--preload]
 *
 * A request is a GET (7 of 10), a batch of 32 GETs (2 of 10) or a scan of 250 entries (1 of 10),
 * and has the priority 0, 7, 15 or 31, each as often. Prints a CSV header and one row: weighted_us
 * is the mean response time, each weighted with 1 + priority; the other columns are plain means of
 * the requests that they name. Exit status: 0 done; 2 usage; 3 could not run.
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"
#include "common/text/parse.h"
#include "common/numbers/random.h"

#define KEYS         20000u
#define VALUE_BYTES  64u
#define BATCH        32u
#define SCAN_ENTRIES 250u
#define MAX_CLIENTS  256u

enum work { WORK_GET, WORK_BATCH, WORK_SCAN, WORKS };
static const unsigned priorities[] = {0, 7, 15, 31};
#define PRIORITIES (sizeof priorities / sizeof *priorities)

/* Sums of response times by work and priority. */
struct mixed_tally {
    uint64_t count[WORKS][PRIORITIES];
    uint64_t sum_ns[WORKS][PRIORITIES];
};

struct mixed_client {
    const char *queue;
    uint64_t seed;
    uint64_t end_ns;
    pthread_barrier_t *start;
    double seconds;
    pthread_t thread;
    struct clientk *handle;
    struct random_state random;
    uint64_t scan_cursor;
    struct clientk_result results[BATCH];
    struct mixed_tally tally;
};

static void check(enum kv_status status)
{
    if (status != KV_OK && status != KV_NOT_FOUND)
        errx(3, "a request failed: %s", clientk_last_error());
}

static struct kv_slice key_of(char text[16], uint64_t number)
{
    return kv_slice(text, (size_t)snprintf(text, 16, "k%08" PRIu64, number));
}

static void get_batch(struct mixed_client *client, size_t count)
{
    char keys[BATCH][16];
    struct clientk_operation operations[BATCH];
    for (size_t i = 0; i < count; i++)
        operations[i] = (struct clientk_operation){
            .opcode = CLIENTK_GET, .key = key_of(keys[i], random_below(&client->random, KEYS))};
    check(clientk_execute(client->handle, operations, count, client->results));
}

static bool pass_over(void *context, const struct clientk_entry *entry)
{
    (void)context, (void)entry;
    return true;
}

static void request(struct mixed_client *client, enum work work)
{
    if (work == WORK_SCAN)
        check(clientk_scan(client->handle, kv_slice(NULL, 0), false, &client->scan_cursor,
                           SCAN_ENTRIES, pass_over, NULL));
    else
        get_batch(client, work == WORK_GET ? 1 : BATCH);
}

static enum work draw_work(struct mixed_client *client)
{
    uint64_t tenth = random_below(&client->random, 10);
    return tenth < 7 ? WORK_GET : tenth < 9 ? WORK_BATCH : WORK_SCAN;
}

static void *run(void *argument)
{
    struct mixed_client *client = argument;
    random_seed(&client->random, client->seed);
    pthread_barrier_wait(client->start);
    uint64_t now_ns = clock_monotonic_ns();
    client->end_ns = now_ns + (uint64_t)(client->seconds * 1e9);
    while (now_ns < client->end_ns) {
        enum work work = draw_work(client);
        size_t class = random_below(&client->random, PRIORITIES);
        clientk_set_priority(client->handle, priorities[class]);
        uint64_t begun_ns = now_ns;
        request(client, work);
        now_ns = clock_monotonic_ns();
        client->tally.count[work][class]++;
        client->tally.sum_ns[work][class] += now_ns - begun_ns;
    }
    return NULL;
}

static void preload(struct clientk *handle)
{
    static char value[VALUE_BYTES];
    memset(value, 'v', sizeof value);
    for (uint64_t number = 0; number < KEYS; number++) {
        char key[16];
        check(clientk_put(handle, key_of(key, number), kv_slice(value, sizeof value), NULL, NULL));
    }
}

/* Mean in microseconds over works from..to and priority classes low..high. */
static double mean_us(const struct mixed_tally *tally, unsigned from, unsigned to, unsigned low,
                      unsigned high)
{
    uint64_t count = 0, sum_ns = 0;
    for (unsigned work = from; work <= to; work++)
        for (unsigned class = low; class <= high; class ++) {
            count += tally->count[work][class];
            sum_ns += tally->sum_ns[work][class];
        }
    return count ? (double)sum_ns / (double)count / 1e3 : 0;
}

static double weighted_us(const struct mixed_tally *tally)
{
    double weights = 0, sum_us = 0;
    for (unsigned work = 0; work < WORKS; work++)
        for (unsigned class = 0; class < PRIORITIES; class ++) {
            double weight = 1 + priorities[class];
            weights += weight * (double)tally->count[work][class];
            sum_us += weight * (double)tally->sum_ns[work][class] / 1e3;
        }
    return weights > 0 ? sum_us / weights : 0;
}

static void print(const struct mixed_tally *tally, double seconds)
{
    uint64_t requests = 0;
    for (unsigned work = 0; work < WORKS; work++)
        for (unsigned class = 0; class < PRIORITIES; class ++)
            requests += tally->count[work][class];
    const unsigned last = PRIORITIES - 1, scan = WORKS - 1;
    printf("ops,seconds,ops_per_s,mean_us,weighted_us,lowest_us,highest_us,get_us,batch_us,scan_us,"
           "highest_get_us,lowest_scan_us\n");
    printf("%" PRIu64 ",%.3f,%.1f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f,%.2f\n", requests,
           seconds, (double)requests / seconds, mean_us(tally, 0, scan, 0, last),
           weighted_us(tally), mean_us(tally, 0, scan, 0, 0), mean_us(tally, 0, scan, last, last),
           mean_us(tally, WORK_GET, WORK_GET, 0, last),
           mean_us(tally, WORK_BATCH, WORK_BATCH, 0, last), mean_us(tally, scan, scan, 0, last),
           mean_us(tally, WORK_GET, WORK_GET, last, last), mean_us(tally, scan, scan, 0, 0));
}

static void open_client(struct mixed_client *client)
{
    struct kv_error error = {0};
    struct clientk_options options = {.queue = client->queue, .timeout_ms = 20000};
    if (clientk_open(&options, &client->handle, &error) != KV_OK)
        errx(3, "%s", error.text);
}

static void close_client(struct mixed_client *client, struct mixed_tally *sum)
{
    for (unsigned work = 0; work < WORKS; work++)
        for (unsigned class = 0; class < PRIORITIES; class ++) {
            sum->count[work][class] += client->tally.count[work][class];
            sum->sum_ns[work][class] += client->tally.sum_ns[work][class];
        }
    for (unsigned i = 0; i < BATCH; i++)
        clientk_value_free(&client->results[i].value);
    clientk_close(client->handle);
}

int main(int argc, char **argv)
{
    uint64_t count, seed;
    char *end = NULL;
    double seconds = argc > 3 ? strtod(argv[3], &end) : 0;
    if (argc < 5 || argc > 6 || !parse_u64(argv[2], 1, MAX_CLIENTS, &count) || *end != '\0' ||
        !(seconds > 0 && seconds < 1e6) || !parse_u64(argv[4], 0, UINT64_MAX, &seed) ||
        (argc == 6 && strcmp(argv[5], "--preload") != 0))
        errx(2, "usage: mixed_load QUEUE CLIENTS SECONDS SEED [--preload]");
    struct mixed_client *clients = calloc(count, sizeof *clients);
    if (!clients)
        errx(3, "out of memory");
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (uint64_t i = 0; i < count; i++) {
        clients[i].queue = argv[1];
        clients[i].seed = seed * MAX_CLIENTS + i;
        clients[i].seconds = seconds;
        clients[i].start = &start;
        open_client(&clients[i]);
    }
    if (argc == 6)
        preload(clients[0].handle);
    uint64_t begun_ns = clock_monotonic_ns();
    for (uint64_t i = 0; i < count; i++)
        if (pthread_create(&clients[i].thread, NULL, run, &clients[i]) != 0)
            errx(3, "cannot start a thread");
    for (uint64_t i = 0; i < count; i++)
        pthread_join(clients[i].thread, NULL);
    double measured_s = (double)(clock_monotonic_ns() - begun_ns) / 1e9;
    struct mixed_tally sum = {0};
    for (uint64_t i = 0; i < count; i++)
        close_client(&clients[i], &sum);
    print(&sum, measured_s);
    pthread_barrier_destroy(&start);
    free(clients);
    return 0;
}

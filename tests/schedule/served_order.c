/*
 * served_order: in which order a serverk serves requests that wait for it together. It stops the
 * daemon (SIGSTOP), sends it some requests, lets it go on, and prints a letter for each in the
 * order in which they were executed, which their versions tell: so the store must have one data
 * file.
 *
 *     served_order QUEUE priority     first 4 of priority 0 (l), then 4 of priority 31 (h)
 *     served_order QUEUE work         first one of 60 operations (b), then 4 of a single one (s)
 *
 * Exit status: 0 done; 2 usage; 3 could not run.
 */
#include <dirent.h>
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mqkv/clientk.h"
#include "common/time/clock.h"

#define PIPELINES  4 /* with the handle's own, as many sessions as share a lane */
#define WINDOW     2 /* that every reply queue has room for */
#define BATCH      60
#define TIMEOUT_MS 60000

struct served {
    char letter;
    uint64_t version;
};

static struct served served[PIPELINES * WINDOW * BATCH];
static size_t served_count;

static void complete(void *context, void *tag, const struct clientk_result *result)
{
    (void)context;
    if (result->status != KV_OK)
        errx(3, "a request failed: %s", kv_status_text(result->status));
    served[served_count++] = (struct served){*(const char *)tag, result->value.version};
}

static struct clientk_pipeline *open_pipeline(struct clientk *client, uint32_t batch)
{
    struct kv_error error = {0};
    struct clientk_pipeline *pipeline;
    if (clientk_pipeline_open(client, WINDOW, batch, complete, NULL, &pipeline, &error) != KV_OK)
        errx(3, "%s", error.text);
    return pipeline;
}

/* Sends at once, if it completes a batch of the pipeline. */
static void put(struct clientk_pipeline *pipeline, const char *letter)
{
    static unsigned number;
    char key[16];
    snprintf(key, sizeof key, "k%u", number++);
    struct clientk_operation operation = {.opcode = CLIENTK_PUT, .key = kv_slice_from_string(key)};
    if (clientk_pipeline_submit(pipeline, &operation, (void *)(uintptr_t)letter) != KV_OK)
        errx(3, "%s", clientk_last_error());
}

/* True if every thread of the process is in state T. */
static bool all_stopped(uint32_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        err(3, "%s", path);
    bool stopped = true;
    for (struct dirent *task; (task = readdir(tasks));) {
        char state = 'T', file[340];
        snprintf(file, sizeof file, "%s/%s/stat", path, task->d_name);
        FILE *stat = task->d_name[0] == '.' ? NULL : fopen(file, "r");
        if (!stat)
            continue;
        if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
            errx(3, "%s cannot be read", file);
        stopped &= state == 'T';
        fclose(stat);
    }
    closedir(tasks);
    return stopped;
}

static void stop(uint32_t pid)
{
    uint64_t deadline_ms = clock_monotonic_coarse_ms() + TIMEOUT_MS;
    if (kill((pid_t)pid, SIGSTOP) != 0)
        err(3, "SIGSTOP to %u", pid);
    while (!all_stopped(pid)) {
        if (clock_monotonic_coarse_ms() > deadline_ms)
            errx(3, "process %u does not stop", pid);
        clock_sleep_ms(1);
    }
}

static void send_by_priority(struct clientk_pipeline *pipelines[PIPELINES])
{
    for (unsigned i = 0; i < PIPELINES; i++) {
        bool high = i >= PIPELINES / 2;
        clientk_pipeline_set_priority(pipelines[i], high ? CLIENTK_MAX_PRIORITY : 0);
        for (unsigned j = 0; j < WINDOW; j++)
            put(pipelines[i], high ? "h" : "l");
    }
}

static void send_by_work(struct clientk_pipeline *batches, struct clientk_pipeline *singles[])
{
    for (unsigned i = 0; i < BATCH; i++)
        put(batches, i == 0 ? "b" : "");
    for (unsigned i = 0; i < 2 * WINDOW; i++)
        put(singles[i / WINDOW], "s");
}

static int by_version(const void *a, const void *b)
{
    const struct served *first = a, *second = b;
    return first->version < second->version ? -1 : first->version > second->version;
}

int main(int argc, char **argv)
{
    bool by_work = argc == 3 && strcmp(argv[2], "work") == 0;
    if (!by_work && (argc != 3 || strcmp(argv[2], "priority") != 0))
        errx(2, "usage: served_order QUEUE priority|work");
    struct clientk *client;
    struct kv_error error = {0};
    struct clientk_options options = {.queue = argv[1], .timeout_ms = TIMEOUT_MS};
    if (clientk_open(&options, &client, &error) != KV_OK)
        errx(3, "%s", error.text);
    struct clientk_pipeline *pipelines[PIPELINES] = {NULL}, *batches = NULL;
    if (by_work)
        batches = open_pipeline(client, BATCH);
    for (unsigned i = 0; i < (by_work ? 2 : PIPELINES); i++)
        pipelines[i] = open_pipeline(client, 1);
    struct clientk_info info;
    clientk_info(client, &info);

    stop(info.server_pid);
    if (by_work)
        send_by_work(batches, pipelines);
    else
        send_by_priority(pipelines);
    kill((pid_t)info.server_pid, SIGCONT);

    clientk_pipeline_close(batches);
    for (unsigned i = 0; i < PIPELINES; i++)
        clientk_pipeline_close(pipelines[i]);
    clientk_close(client);
    qsort(served, served_count, sizeof *served, by_version);
    for (size_t i = 0; i < served_count; i++)
        if (served[i].letter)
            putchar(served[i].letter);
    putchar('\n');
    return 0;
}

/* queue_loop QUEUE JOBS PRODUCERS WORKERS TOGETHER KILLS LEASE_MS [SEED]: puts so many jobs into
 * one queue of the daemon, has so many workers take and acknowledge TOGETHER of them at a time, and
 * meanwhile kills producers and workers KILLS times (-9), which are started anew; who runs it may
 * kill the daemon. Each job that was put has to be done, none that was not; and while the lease of
 * one worker holds, no other gets its job. Prints how fast it was. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "common/time/clock.h"
#include "mqkv/clientk_queue.h"

#define PROCESSES 64u
#define QUEUE     "loop"

/* What the processes share. */
struct job_account {
    _Atomic uint32_t puts; /* begun; one that was killed meanwhile was perhaps done */
    _Atomic uint32_t put;  /* known to be done */
    _Atomic uint32_t done; /* acknowledgements that were answered */
    _Atomic uint32_t taken;
    _Atomic uint64_t held_id; /* the job that is held; 0: none */
    _Atomic uint64_t held_until_ms;
};

struct queue_account {
    _Atomic uint64_t next; /* the next job to put */
    _Atomic uint64_t violations;
    _Atomic uint64_t finished_ms;
    _Atomic bool all_put;
    struct job_account jobs[];
};

static struct queue_account *account;
static const char *daemon_queue;
static uint64_t job_count;
static unsigned producers, workers, together;
static uint32_t lease_ms;

static void must(enum kv_status status, const char *what)
{
    if (status == KV_OK)
        return;
    fprintf(stderr, "queue_loop: %s: %s\n", what, clientk_last_error());
    exit(2);
}

static struct clientk_queue *open_loop(struct clientk **client)
{
    struct kv_error error = {.status = KV_OK};
    struct clientk_options options = {.queue = daemon_queue, .timeout_ms = 30000};
    struct clientk_queue_options queue_options = {.lease_ms = lease_ms};
    struct clientk_queue *queue = NULL;
    if (clientk_open(&options, client, &error) != KV_OK ||
        clientk_queue_open(*client, kv_slice_from_string(QUEUE), &queue_options, &queue, &error) !=
            KV_OK) {
        fprintf(stderr, "queue_loop: %s\n", error.text);
        exit(2);
    }
    return queue;
}

static bool is_passing(enum kv_status status)
{
    return status == KV_OUTCOME_UNKNOWN || status == KV_TIMEOUT || status == KV_NO_SERVER ||
           status == KV_DEADLINE || status == KV_NO_SESSION || status == KV_OVERLOADED;
}

/* A producer takes numbers by turns: one that was killed leaves numbers that nobody has put. */
static void produce_jobs(void)
{
    struct clientk *client;
    struct clientk_queue *queue = open_loop(&client);
    for (;;) {
        struct kv_slice payloads[64];
        char texts[64][24];
        size_t count = 0, put;
        for (; count < together; count++) {
            uint64_t number = atomic_fetch_add(&account->next, 1);
            if (number >= job_count)
                break;
            snprintf(texts[count], sizeof texts[count], "%" PRIu64, number);
            payloads[count] = kv_slice_from_string(texts[count]);
            atomic_fetch_add(&account->jobs[number].puts, 1);
        }
        if (count == 0)
            break;
        /* Some are delayed, some of another priority. */
        uint64_t first = strtoull(texts[0], NULL, 10);
        struct clientk_put_job_options options = {.priority = first % 7 == 0,
                                                  .delay_ms = first % 11 == 0 ? 20 : 0,
                                                  .max_attempts = 1000000};
        for (size_t done = 0; done < count; done += put) {
            enum kv_status status =
                clientk_queue_put(queue, payloads + done, count - done, &options, NULL, &put);
            for (size_t i = done; i < done + put; i++)
                atomic_store(&account->jobs[strtoull(texts[i], NULL, 10)].put, 1);
            if (status != KV_OK && !is_passing(status))
                must(status, "put");
            for (size_t i = done + put; status != KV_OK && i < count; i++)
                atomic_fetch_add(&account->jobs[strtoull(texts[i], NULL, 10)].puts, 1);
        }
    }
    clientk_queue_close(queue);
    clientk_close(client);
}

/* A job was taken: nobody else may hold it. Two jobs have one number where a put was repeated. */
static void note_taken(const struct clientk_job *job, uint64_t number)
{
    if (number >= job_count || atomic_load(&account->jobs[number].puts) == 0) {
        atomic_fetch_add(&account->violations, 1);
        fprintf(stderr, "queue_loop: job %" PRIu64 " was never put\n", number);
        return;
    }
    struct job_account *one = &account->jobs[number];
    atomic_fetch_add(&one->taken, 1);
    if (atomic_load(&one->puts) > 1)
        return;
    uint64_t until_ms = atomic_load(&one->held_until_ms), now_ms = clock_realtime_ms();
    if (job->until_ms <= now_ms) /* this worker was slow: somebody else may hold it by now */
        return;
    if (atomic_load(&one->held_id) == job->id && until_ms > now_ms) {
        atomic_fetch_add(&account->violations, 1);
        fprintf(stderr, "queue_loop: job %" PRIu64 " was taken %" PRIu64 " ms too early\n", number,
                until_ms - now_ms);
    }
    atomic_store(&one->held_until_ms, job->until_ms);
    atomic_store(&one->held_id, job->id);
}

static void work_at_jobs(void)
{
    struct clientk *client;
    struct clientk_queue *queue = open_loop(&client);
    struct clientk_job jobs[64] = {{.id = 0}};
    for (;;) {
        size_t taken;
        enum kv_status status = clientk_queue_take(queue, together, 1000, jobs, &taken);
        if (status == KV_NOT_FOUND) {
            struct clientk_queue_lengths lengths;
            if (atomic_load(&account->all_put) && clientk_queue_length(queue, &lengths) == KV_OK &&
                lengths.ready + lengths.leased + lengths.later == 0)
                break;
            continue;
        }
        if (!is_passing(status))
            must(status, "take");
        for (size_t i = 0; i < taken; i++)
            note_taken(&jobs[i], strtoull(jobs[i].payload.data, NULL, 10));
        if (taken == 0)
            continue;
        status = clientk_queue_ack(queue, jobs, taken);
        for (size_t i = 0; status == KV_OK && i < taken; i++) {
            uint64_t number = strtoull(jobs[i].payload.data, NULL, 10);
            atomic_store(&account->jobs[number].done, 1);
        }
        if (status == KV_OK)
            atomic_store(&account->finished_ms, clock_monotonic_coarse_ms());
        if (status != KV_OK && !is_passing(status) && status != KV_NOT_FOUND &&
            status != KV_VERSION_MISMATCH)
            must(status, "ack");
    }
    for (size_t i = 0; i < 64; i++)
        clientk_job_free(&jobs[i]);
    clientk_queue_close(queue);
    clientk_close(client);
}

static pid_t start(bool producer)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    if (producer)
        produce_jobs();
    else
        work_at_jobs();
    _exit(0);
}

/* Waits for the process; false: it has failed by itself. */
static bool await(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
           (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void kill_some(pid_t *pids, unsigned kills, struct random_state *random)
{
    for (unsigned i = 0; i < kills; i++) {
        clock_sleep_ms(5 + random_below(random, 60));
        unsigned victim = (unsigned)random_below(random, producers + workers);
        kill(pids[victim], SIGKILL);
        if (!await(pids[victim]))
            exit(2);
        pids[victim] = start(victim < producers);
    }
}

int main(int argc, char **argv)
{
    pid_t pids[PROCESSES] = {0};
    struct random_state random;
    if (argc < 8)
        return 2;
    daemon_queue = argv[1];
    job_count = strtoull(argv[2], NULL, 10);
    producers = (unsigned)atoi(argv[3]);
    workers = (unsigned)atoi(argv[4]);
    together = (unsigned)atoi(argv[5]);
    unsigned kills = (unsigned)atoi(argv[6]);
    lease_ms = (uint32_t)atoi(argv[7]);
    random_seed(&random, argc > 8 ? strtoull(argv[8], NULL, 10) : 1);
    if (producers + workers > PROCESSES || together == 0 || together > 64)
        return 2;
    account = mmap(NULL, sizeof *account + job_count * sizeof account->jobs[0],
                   PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (account == MAP_FAILED)
        return 2;
    uint64_t begin_ms = clock_monotonic_coarse_ms();
    for (unsigned i = 0; i < producers + workers; i++)
        pids[i] = start(i < producers);
    kill_some(pids, kills, &random);
    bool sound = true;
    for (unsigned i = 0; i < producers; i++)
        sound &= await(pids[i]);
    uint64_t put_ms = clock_monotonic_coarse_ms() - begin_ms;
    atomic_store(&account->all_put, true);
    for (unsigned i = producers; i < producers + workers; i++)
        sound &= await(pids[i]);
    uint64_t lost = 0, again = 0, taken = 0;
    for (uint64_t i = 0; i < job_count; i++) {
        const struct job_account *one = &account->jobs[i];
        uint32_t times = atomic_load(&one->taken);
        lost += atomic_load(&one->put) && times == 0;
        again += times > 1;
        taken += times > 0;
    }
    uint64_t all_ms = atomic_load(&account->finished_ms) - begin_ms;
    printf("%" PRIu64 " jobs, %u producers, %u workers, %u together: put in %" PRIu64
           " ms, done in %" PRIu64 " ms: %.0f/s; lost %" PRIu64 ", done again %" PRIu64 "\n",
           taken, producers, workers, together, put_ms, all_ms,
           (double)taken * 1000 / (double)(all_ms > 0 ? all_ms : 1), lost, again);
    return sound && lost == 0 && atomic_load(&account->violations) == 0 ? 0 : 1;
}

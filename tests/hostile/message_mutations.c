/*
 * message_mutations QUEUE SERVER_PID SEED COUNT [FIRST_BATCH]: COUNT mutated messages for a daemon,
 * and what it makes of them.
 *
 * First genuine messages of all kinds are recorded. Then processes, one after the other, each send
 * a batch of them, mutated: to sessions of their own, with the right cookie or a wrong one, in the
 * recorded order or in any, some with a segment that is truncated or taken away meanwhile. Each
 * ends without a word. All the while a polite client must get right answers.
 *
 * MQKV_KEEP_SEGMENTS set: segments keep their size.
 *
 * The last line tells how many messages, the memory that the daemon took at most (KiB) and whether
 * it has more descriptors than before. Exit 1, with the batch to begin with again, when an answer
 * is missing or wrong.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/time/clock.h"
#include "common/memory/cursor.h"
#include "common/text/parse.h"
#include "tests/hostile/mutation.h"
#include "tests/hostile/recording.h"
#include "tests/support/raw_client.h"
#include "tests/support/wire_samples.h"
#include "wire/queue_name.h"

#define BATCH_MESSAGES   5000u
#define SESSION_MESSAGES 100u
#define SEGMENT_BYTES    (1u << 20)
#define CATCH_UP_EVERY   4
#define CONNECT_TRIES    100
#define CATCH_UP_MS      5u
#define POLITE_KEYS      16
#define BATCH_STRIDE     UINT64_C(0x9e3779b97f4a7c15)

/* Where the header has what binds a message to its session. */
#define KIND_OFFSET     5u
#define SESSION_OFFSET  8u
#define ID_OFFSET       16u
#define SECRET_OFFSET   24u
#define DEADLINE_OFFSET 32u

static struct recording recording;

/* What libclientk and the raw client send passes here. */
int mq_timedsend(mqd_t queue, const char *bytes, size_t size, unsigned priority,
                 const struct timespec *until)
{
    recording_note(&recording, bytes, size);
    return (int)syscall(SYS_mq_timedsend, queue, bytes, size, priority, until);
}

int mq_send(mqd_t queue, const char *bytes, size_t size, unsigned priority)
{
    recording_note(&recording, bytes, size);
    return (int)syscall(SYS_mq_timedsend, queue, bytes, size, priority, NULL);
}

/* The hostile process -------------------------------------------------------------------------- */

struct hostile {
    const char *server;
    struct random_state random;
    struct raw_client client;
    bool connected;
    int segment; /* -1: none */
    size_t next; /* recorded message */
    uint64_t first_id;
};

static void swallow_replies(struct raw_client *client)
{
    struct wire_header header;
    while (raw_receive(client, &header, 0) > 0)
        ;
}

/* Waits until all before was dealt with: else replies fill the queue, which ends the session.
 * False: the session has ended. */
static bool catch_up(struct raw_client *client)
{
    struct wire_operation ping = {.opcode = WIRE_OP_PING};
    struct wire_header header = {0};
    uint64_t request_id = raw_request(client, &ping, 1);
    while (request_id && header.request_id != request_id)
        if (raw_receive(client, &header, CATCH_UP_MS) == 0)
            return false;
    return request_id != 0;
}

/* Offers a segment as an honest client does, but keeps it to play with. */
static void offer_segment(struct hostile *self)
{
    char name[WIRE_QUEUE_NAME_BYTES];
    uint8_t message[512];
    wire_queue_name(name, self->server, WIRE_REPLY_SEGMENT, getpid(), 1);
    self->segment = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (self->segment < 0 || ftruncate(self->segment, SEGMENT_BYTES) != 0)
        return;
    struct wire_header header = raw_header(&self->client, WIRE_SEGMENT, 0);
    struct wire_segment_offer offer = {SEGMENT_BYTES, kv_slice_from_string(name)};
    struct write_cursor cursor = write_cursor(message, sizeof message);
    wire_put_header(&cursor, &header);
    wire_put_segment_offer(&cursor, &offer);
    raw_send(&self->client, message, write_cursor_used(&cursor));
    raw_receive(&self->client, &header, 1000);
    shm_unlink(name);
}

/* Ends the session as a client should, so that its queue is not held for long. */
static void say_goodbye(struct hostile *self)
{
    uint8_t message[WIRE_HEADER_BYTES];
    struct wire_header header = raw_header(&self->client, WIRE_BYE, 0);
    struct write_cursor cursor = write_cursor(message, sizeof message);
    wire_put_header(&cursor, &header);
    raw_send(&self->client, message, sizeof message);
    raw_close(&self->client);
    if (self->segment >= 0)
        close(self->segment);
    self->segment = -1;
    self->connected = false;
}

/* Waits a while for the queues of sessions before to be given back. */
static bool connect_hostile(struct hostile *self)
{
    static const struct wire_geometry geometries[] = {{10, 8192}, {4, 1024}, {1, 128}};
    struct kv_error error = {0};
    uint64_t drawn = random_below(&self->random, 16);
    if (self->connected)
        say_goodbye(self);
    for (int tries = 0; tries < CONNECT_TRIES && !self->connected; tries++) {
        self->connected = raw_connect(&self->client, self->server,
                                      geometries[drawn < 12   ? 0
                                                 : drawn < 15 ? 1
                                                              : 2],
                                      true, &error) == KV_OK;
        if (self->connected)
            break;
        raw_close(&self->client);
        usleep(100000);
    }
    if (!self->connected)
        fprintf(stderr, "message_mutations: hostile: %s\n", error.text);
    else if (random_below(&self->random, 2))
        offer_segment(self);
    self->first_id = random_next(&self->random) >> 8;
    return self->connected;
}

/* BYE seldom: what follows it is dropped unread. */
static enum wire_kind pick_kind(struct random_state *random)
{
    enum wire_kind kind = (enum wire_kind)(1 + random_below(random, WIRE_MORE));
    return kind == WIRE_BYE && random_below(random, 16) ? WIRE_REQUEST : kind;
}

/* The next message: recorded, in order or not, or made up. */
static size_t pick(struct hostile *self, uint8_t *message)
{
    struct random_state *random = &self->random;
    if (random_below(random, 4) == 0)
        return wire_sample_message(random, pick_kind(random), message, RAW_MESSAGE_BYTES);
    self->next = random_below(random, 8) ? self->next + 1 : random_next(random);
    self->next %= recording.count;
    memcpy(message, recording.messages[self->next].bytes, recording.messages[self->next].size);
    return recording.messages[self->next].size;
}

/* Makes it a message of the live session: else it is dropped before anything is read. */
static void bind_to_session(struct hostile *self, uint8_t *message, size_t size)
{
    if (size < WIRE_HEADER_BYTES)
        return;
    store_u32(message, WIRE_MAGIC);
    message[4] = WIRE_VERSION;
    store_u32(message + SESSION_OFFSET, self->client.session);
    store_u64(message + ID_OFFSET, load_u64(message + ID_OFFSET) + self->first_id);
    store_u64(message + SECRET_OFFSET, self->client.welcome.cookie);
    store_u64(message + DEADLINE_OFFSET, 0);
}

/* A HELLO that may be believed: with the name and the nonce of a queue that is there. */
static size_t hello_of_self(struct hostile *self, uint8_t *message)
{
    struct wire_hello hello = {.nonce = self->client.nonce,
                               .pid = (uint32_t)getpid(),
                               .reply_depth = 2,
                               .threads = 1,
                               .reply_bytes = 1024,
                               .reply_queue = kv_slice_from_string(self->client.reply_name)};
    struct wire_header header = {.kind = WIRE_HELLO};
    struct write_cursor cursor = write_cursor(message, RAW_MESSAGE_BYTES);
    wire_put_header(&cursor, &header);
    wire_put_hello(&cursor, &hello);
    return write_cursor_used(&cursor);
}

static void play_with_segment(struct hostile *self)
{
    static const off_t sizes[] = {0, 1, 4096, 65536, SEGMENT_BYTES};
    if (self->segment >= 0 && ftruncate(self->segment, sizes[random_below(&self->random, 5)]) != 0)
        return;
}

/* False: the lane stays full. */
static bool send_mutated(struct hostile *self)
{
    struct random_state *random = &self->random;
    uint8_t message[RAW_MESSAGE_BYTES];
    const struct recorded_message *other =
        &recording.messages[random_below(random, recording.count)];
    size_t largest = self->client.welcome.bulk_bytes;
    if (largest < WIRE_HEADER_BYTES || largest > sizeof message)
        largest = sizeof message;
    size_t size = random_below(random, 128) ? pick(self, message) : hello_of_self(self, message);
    if (size > largest)
        size = largest;
    bool bound = random_below(random, 8) != 0, bound_afterwards = random_below(random, 3) != 0;
    if (bound)
        bind_to_session(self, message, size);
    size = mutate(random, message, size, largest, other->bytes, other->size);
    if (bound && bound_afterwards)
        bind_to_session(self, message, size);
    return raw_send(&self->client, message, size);
}

/* Sends a batch and ends without a word. */
_Noreturn static void be_hostile(const char *server, uint64_t seed, uint64_t messages,
                                 bool segments)
{
    static struct hostile self;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    self = (struct hostile){.server = server, .segment = -1};
    random_seed(&self.random, seed);
    bool live = false;
    int failed_sends = 0;
    for (uint64_t i = 0; i < messages; i++) {
        if ((!live || i % SESSION_MESSAGES == 0) && !connect_hostile(&self))
            _exit(3);
        failed_sends = send_mutated(&self) ? 0 : failed_sends + 1;
        if (failed_sends == 3)
            _exit(4);
        if (segments && random_below(&self.random, 50) == 0)
            play_with_segment(&self);
        swallow_replies(&self.client);
        live = i % CATCH_UP_EVERY || catch_up(&self.client);
    }
    raw_close(&self.client);
    _exit(0);
}

/* The polite client ---------------------------------------------------------------------------- */

struct polite {
    struct raw_client client;
    uint64_t values[POLITE_KEYS]; /* 0: absent */
    struct random_state random;
    uint64_t answers;
};

static struct kv_slice polite_key(unsigned number, char key[32])
{
    snprintf(key, 32, "the polite one's key %u", number);
    return kv_slice_from_string(key);
}

/* Connects, and deletes what a run before left of its keys. */
static bool polite_start(struct polite *self, const char *server, uint64_t seed)
{
    struct kv_error error = {0};
    struct wire_result result;
    char key[32];
    random_seed(&self->random, seed);
    enum kv_status status =
        raw_connect(&self->client, server, (struct wire_geometry){2, 1024}, true, &error);
    for (unsigned i = 0; i < POLITE_KEYS && (status == KV_OK || status == KV_NOT_FOUND); i++) {
        struct wire_operation delete = {.opcode = WIRE_OP_DELETE, .key = polite_key(i, key)};
        status = raw_call(&self->client, &delete, &result);
    }
    if (status == KV_OK || status == KV_NOT_FOUND)
        return true;
    fprintf(stderr, "message_mutations: %s: %s\n", kv_status_text(status), error.text);
    return false;
}

/* One operation on one of its keys, whose answer is known. */
static bool polite_answer(struct polite *self)
{
    char key[32];
    unsigned number = (unsigned)random_below(&self->random, POLITE_KEYS);
    uint64_t value = random_next(&self->random) | 1;
    struct wire_result result = {0};
    struct wire_operation operation = {.key = polite_key(number, key)};
    uint64_t *known = &self->values[number];
    bool right = false;
    switch (random_below(&self->random, 4)) {
    case 0:
        operation.opcode = WIRE_OP_PUT;
        operation.value = kv_slice(&value, sizeof value);
        right = raw_call(&self->client, &operation, &result) == KV_OK;
        *known = value;
        break;
    case 1:
        operation.opcode = WIRE_OP_DELETE;
        right = raw_call(&self->client, &operation, &result) == (*known ? KV_OK : KV_NOT_FOUND);
        *known = 0;
        break;
    default:
        operation.opcode = WIRE_OP_GET;
        right = raw_call(&self->client, &operation, &result) == (*known ? KV_OK : KV_NOT_FOUND) &&
                (!*known || kv_slice_equal(result.value, kv_slice(known, sizeof *known)));
        break;
    }
    self->answers += right;
    return right;
}

/* The daemon from outside ---------------------------------------------------------------------- */

/* KiB of the member of /proc/PID/status; 0: the process is gone. */
static uint64_t memory_kib(pid_t pid, const char *member)
{
    char path[64], line[256];
    unsigned long long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, member, strlen(member)) == 0)
            sscanf(line + strlen(member), ": %llu", &kib);
    if (file)
        fclose(file);
    return kib;
}

static long descriptors(pid_t pid)
{
    char path[64];
    long count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* The whole ------------------------------------------------------------------------------------ */

struct mutation_run {
    const char *server;
    pid_t server_pid;
    uint64_t seed, count, first_batch;
    bool segments;
    uint64_t start_ns;
    struct polite polite;
};

static void show_progress(const struct mutation_run *run, uint64_t done)
{
    if (!isatty(STDERR_FILENO) || done == 0)
        return;
    double seconds = (double)(clock_monotonic_ns() - run->start_ns) / 1e9;
    fprintf(stderr, "\r%llu of %llu messages, %.0f s left, daemon %llu MiB  ",
            (unsigned long long)done, (unsigned long long)run->count,
            seconds * (double)(run->count - done) / (double)done,
            (unsigned long long)memory_kib(run->server_pid, "VmRSS") / 1024);
}

/* One hostile process from start to end, the polite client beside it. */
static bool run_batch(struct mutation_run *run, uint64_t batch, uint64_t messages)
{
    pid_t child = fork();
    if (child == 0)
        be_hostile(run->server, run->seed + batch * BATCH_STRIDE, messages, run->segments);
    int status = 0;
    bool right = child > 0, ended = child < 0;
    while (!ended && right) {
        right = polite_answer(&run->polite);
        ended = waitpid(child, &status, WNOHANG) != 0;
    }
    if (!ended) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "message_mutations: the hostile process got no session, or no room\n");
        right = false;
    }
    return right;
}

static bool run_all(struct mutation_run *run)
{
    run->start_ns = clock_monotonic_ns();
    for (uint64_t done = 0, batch = run->first_batch; done < run->count; batch++) {
        uint64_t messages = run->count - done < BATCH_MESSAGES ? run->count - done : BATCH_MESSAGES;
        if (!run_batch(run, batch, messages)) {
            fprintf(stderr,
                    "message_mutations: a wrong answer or none in batch %llu; again with: "
                    "message_mutations QUEUE PID %llu %u %llu\n",
                    (unsigned long long)batch, (unsigned long long)run->seed, BATCH_MESSAGES,
                    (unsigned long long)batch);
            return false;
        }
        done += messages;
        show_progress(run, done);
    }
    return true;
}

static bool take_arguments(int argc, char **argv, struct mutation_run *run)
{
    uint64_t pid;
    if (argc < 5 || argc > 6 || !parse_u64(argv[2], 1, INT32_MAX, &pid) ||
        !parse_u64(argv[3], 0, UINT64_MAX, &run->seed) ||
        !parse_u64(argv[4], 1, UINT64_MAX, &run->count) ||
        (argc == 6 && !parse_u64(argv[5], 0, UINT64_MAX, &run->first_batch)))
        return false;
    run->server = argv[1];
    run->server_pid = (pid_t)pid;
    run->segments = !getenv("MQKV_KEEP_SEGMENTS");
    return true;
}

int main(int argc, char **argv)
{
    static struct mutation_run run;
    if (!take_arguments(argc, argv, &run)) {
        fprintf(stderr, "usage: message_mutations /QUEUE SERVER_PID SEED COUNT [FIRST_BATCH]\n");
        return 2;
    }
    if (!recording_make(&recording, run.server) || !polite_start(&run.polite, run.server, run.seed))
        return 1;
    long before = descriptors(run.server_pid);
    bool right = run_all(&run);
    for (int i = 0; right && i < 100 && descriptors(run.server_pid) > before; i++)
        usleep(100000);
    printf("%llu mutated messages of %zu recorded, seed %llu: %llu polite answers, "
           "daemon at most %llu KiB, %+ld descriptors\n",
           (unsigned long long)run.count, recording.count, (unsigned long long)run.seed,
           (unsigned long long)run.polite.answers,
           (unsigned long long)memory_kib(run.server_pid, "VmHWM"),
           descriptors(run.server_pid) - before);
    raw_close(&run.polite.client);
    recording_free(&recording);
    return right ? 0 : 1;
}

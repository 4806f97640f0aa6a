#include "bridges/cluster/natskv/nats_sweep.h"

#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/numbers/random.h"
#include "common/report/error.h"
#include "common/time/clock.h"
#include "bridges/cluster/natskv/nats_ask.h"
#include "bridges/cluster/natskv/nats_entry.h"
#include "bridges/cluster/natskv/nats_json.h"
#include "bridges/cluster/natskv/nats_look.h"
#include "bridges/cluster/natskv/nats_subject.h"
#include "bridges/cluster/natskv/nats_key_queue.h"

#define TOMBSTONE_MS 3600000u
#define EXPIRED_MS   2000u

/* The time between two looks at who sweeps. A sweep takes at most a fifth of the time between
 * two. */
#define EVERY_MS 10000u
#define IDLE_FOR 4u

/* A daemon that has not said for this long that it sweeps, does not. */
#define SILENCE_MS 30000u

#define PAGE   256u
#define ASK_MS 2000u

/* No key is encoded like this, so no daemon shows it. */
#define SWEEPER_KEY "=sweeper"

/* A message that must be removed. */
struct removal {
    struct link_call call;
    struct nats_sweep *sweep;
    char *subject;
    uint64_t sequence;
};

/* What the last sweep of a stream left. */
struct swept_shard {
    uint64_t last_sequence; /* the sweep saw all messages up to this one */
    uint64_t next_ms;       /* when the first of these must be removed; 0: not swept yet */
};

struct nats_sweep {
    struct nats_engine *engine;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ending; /* covered by `lock` */

    uint64_t sweeper_version; /* version of the sweeper's entry, as it was seen last */
    uint64_t sweeper_ms;      /* when that version was seen first */
    bool is_ours;
    struct swept_shard *shards;

    /* the stream that is being swept: */
    uint32_t shard;
    uint64_t now_ms; /* the earlier time of both clocks, and the time of the servers' clock */
    uint64_t servers_ms;
    uint64_t next_ms, last_sequence;
    struct removal removals[PAGE];
    unsigned removal_count;
    sem_t removed;
    sem_t answered; /* run_sweeper_operation waits for it */

    _Atomic uint64_t removed_total;
};

/* Times ---------------------------------------------------------------------------------------- */

uint64_t nats_sweep_due_ms(const struct swept_message *message)
{
    uint64_t from_ms = message->tombstone ? message->written_ms : message->expiry_ms;
    uint64_t wait_ms = message->tombstone ? TOMBSTONE_MS : EXPIRED_MS;
    if (from_ms == 0 || from_ms > UINT64_MAX - wait_ms)
        return UINT64_MAX;
    return from_ms + wait_ms;
}

bool nats_sweep_take_time(struct kv_slice text, uint64_t *time_ms)
{
    char copy[40] = "";
    struct tm time = {0};
    unsigned milliseconds = 0, factor = 100;
    if (text.size >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.size);
    const char *rest = strptime(copy, "%Y-%m-%dT%H:%M:%S", &time);
    if (!rest)
        return false;
    if (*rest == '.')
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, factor /= 10)
            milliseconds += (unsigned)(*rest - '0') * factor;
    time_t seconds = timegm(&time);
    if (strcmp(rest, "Z") != 0 || seconds < 0)
        return false;
    *time_ms = (uint64_t)seconds * 1000 + milliseconds;
    return true;
}

/* The subject is "$JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.NUMBER.NANOSECONDS.PENDING", or has a
 * domain and an account before the stream, and perhaps more behind. */
bool nats_sweep_read_ack_subject(const char *subject, uint64_t *sequence, uint64_t *written_ms)
{
    const char *words[16];
    unsigned count = 0;
    if (strncmp(subject, "$JS.ACK.", 8) != 0)
        return false;
    for (const char *at = subject; at && count < 16; at = strchr(at, '.')) {
        at += *at == '.';
        words[count++] = at;
    }
    if (count < 9 || count == 10)
        return false;
    unsigned stream = count == 9 ? 2 : 4;
    *sequence = strtoull(words[stream + 3], NULL, 10);
    *written_ms = strtoull(words[stream + 5], NULL, 10) / 1000000;
    return *sequence > 0;
}

/* Whose turn it is ----------------------------------------------------------------------------- */

static void post_operation_done(struct engine_operation *operation)
{
    sem_post(operation->context);
}

/* Executes an operation on the sweeper's entry, and waits for it. */
static enum kv_status run_sweeper_operation(struct nats_sweep *sweep,
                                            struct engine_operation *operation)
{
    sem_init(&sweep->answered, 0, 0);
    operation->key = kv_slice_from_string(SWEEPER_KEY);
    operation->context = &sweep->answered;
    operation->done = post_operation_done;
    operation->deadline_ms = clock_monotonic_coarse_ms() + ASK_MS;
    nats_key_queues_take(sweep->engine->queues, operation, 0, SWEEPER_KEY);
    while (sem_wait(&sweep->answered) != 0)
        ;
    sem_destroy(&sweep->answered);
    return operation->status;
}

/* Returns true if this daemon is the sweeper, or must become it. */
static bool is_sweeper(struct nats_sweep *sweep)
{
    struct engine_operation read = {.opcode = ENGINE_GET};
    uint64_t now_ms = clock_monotonic_coarse_ms();
    enum kv_status status = run_sweeper_operation(sweep, &read);
    if (status != KV_OK && status != KV_NOT_FOUND)
        return false;
    uint64_t version = status == KV_OK ? read.entry.version : 0;
    if (version != sweep->sweeper_version) {
        sweep->sweeper_version = version;
        sweep->sweeper_ms = now_ms;
        sweep->is_ours = false;
    }
    if (!sweep->is_ours && version != 0 && now_ms - sweep->sweeper_ms < SILENCE_MS)
        return false;
    /* Announces that this daemon sweeps, if nobody has since that look. */
    const char *name = nats_link_instance(sweep->engine->link);
    struct engine_operation write = {.opcode = ENGINE_PUT, .value = kv_slice_from_string(name)};
    write.put.condition = sweep->sweeper_version == 0 ? KVSTORE_IF_ABSENT : KVSTORE_IF_VERSION;
    write.put.version = sweep->sweeper_version;
    sweep->is_ours = run_sweeper_operation(sweep, &write) == KV_OK;
    if (!sweep->is_ours)
        return false;
    uint64_t sequence = write.entry.version / NATSKV_FOLD;
    if (sequence == sweep->shards[0].last_sequence + 1) /* this entry is all that is new */
        sweep->shards[0].last_sequence = sequence;
    sweep->sweeper_version = write.entry.version;
    sweep->sweeper_ms = clock_monotonic_coarse_ms();
    return true;
}

/* Removing ------------------------------------------------------------------------------------- */

static bool make_removal(struct link_call *call, const char *reply, natsMsg **message)
{
    const struct removal *removal = (struct removal *)call;
    char stream[NATS_STREAM_NAME_BYTES], subject[NATS_STREAM_NAME_BYTES + 32];
    char json[NATS_SUBJECT_BYTES + 64];
    nats_bucket_stream(&removal->sweep->engine->bucket, removal->sweep->shard, stream);
    snprintf(subject, sizeof subject, "$JS.API.STREAM.PURGE.%s", stream);
    int size = snprintf(json, sizeof json, "{\"filter\":\"%s\",\"seq\":%" PRIu64 "}",
                        removal->subject, removal->sequence + 1);
    return natsMsg_Create(message, subject, reply, json, size) == NATS_OK;
}

/* The answer to a removal: link_call.answer. A message that is not removed now is removed by a
 * later sweep. */
static bool take_removed(struct link_call *call, enum link_outcome outcome, natsMsg *message,
                         bool repeats)
{
    struct removal *removal = (struct removal *)call;
    uint64_t purged = 0;
    (void)repeats;
    if (outcome == LINK_ANSWERED &&
        nats_json_number(kv_slice(natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message)),
                         "purged", &purged))
        atomic_fetch_add_explicit(&removal->sweep->removed_total, purged, memory_order_relaxed);
    else
        removal->sweep->next_ms = 0;
    sem_post(&removal->sweep->removed);
    return false;
}

static void remove_expired(struct nats_sweep *sweep)
{
    unsigned sent = 0;
    for (unsigned i = 0; i < sweep->removal_count; i++) {
        struct removal *removal = &sweep->removals[i];
        removal->call = (struct link_call){.deadline_ms = clock_monotonic_coarse_ms() + ASK_MS,
                                           .make = make_removal,
                                           .answer = take_removed};
        sent += nats_link_send(sweep->engine->link, &removal->call);
    }
    for (unsigned i = 0; i < sent; i++)
        while (sem_wait(&sweep->removed) != 0)
            ;
    if (sent < sweep->removal_count)
        sweep->next_ms = 0;
    for (unsigned i = 0; i < sweep->removal_count; i++)
        free(sweep->removals[i].subject);
    sweep->removal_count = 0;
}

/* Sweeping ------------------------------------------------------------------------------------- */

/* Looks at a message: a visitor of nats_ask_many. A subject that is no key of ours is left alone:
 * if it had a wildcard in it, removing it would remove others. */
static void look_at_message(void *context, natsMsg *message)
{
    struct nats_sweep *sweep = context;
    struct swept_message swept = {0};
    char stream[NATS_STREAM_NAME_BYTES];
    uint8_t key[NATSKV_MAX_KEY_BYTES];
    uint64_t sequence;
    size_t size;
    const char *reply = natsMsg_GetReply(message), *subject = natsMsg_GetSubject(message);
    if (!reply || !nats_sweep_read_ack_subject(reply, &sequence, &swept.written_ms))
        return;
    sweep->last_sequence = sequence;
    nats_bucket_stream(&sweep->engine->bucket, sweep->shard, stream);
    size_t before = strlen(stream) + 2; /* "KV_B_3" is as long as "$KV.B_3" without the dollar */
    nats_entry_headers(message, &swept.tombstone, &swept.expiry_ms);
    uint64_t due_ms = nats_sweep_due_ms(&swept);
    if (strlen(subject) <= before || !nats_subject_decode(subject + before, key, sizeof key, &size))
        return;
    if (due_ms > (swept.tombstone ? sweep->servers_ms : sweep->now_ms)) {
        if (due_ms < sweep->next_ms)
            sweep->next_ms = due_ms;
        return;
    }
    struct removal *removal = &sweep->removals[sweep->removal_count];
    removal->sweep = sweep;
    removal->sequence = sequence;
    removal->subject = strdup(subject);
    if (removal->subject)
        sweep->removal_count++;
    else
        sweep->next_ms = 0;
}

static bool is_ending(struct nats_sweep *sweep)
{
    pthread_mutex_lock(&sweep->lock);
    bool ending = sweep->ending;
    pthread_mutex_unlock(&sweep->lock);
    return ending;
}

/* Makes a consumer that shows headers only, and that exists for a moment. False: it could not be
 * made. */
static bool make_consumer(struct nats_sweep *sweep, const char *stream, char name[64])
{
    char subject[NATS_STREAM_NAME_BYTES + 32], json[NATS_STREAM_NAME_BYTES + 256], *text = NULL;
    struct kv_slice found = {0}, time = {0};
    size_t size;
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.CREATE.%s", stream);
    snprintf(
        json, sizeof json,
        "{\"stream_name\":\"%s\",\"config\":{\"deliver_policy\":\"all\",\"ack_policy\":\"none\","
        "\"headers_only\":true,\"num_replicas\":1,\"mem_storage\":true,"
        "\"inactive_threshold\":30000000000}}",
        stream);
    if (nats_ask(sweep->engine->link, subject, json, ASK_MS, &text, &size) != KV_OK)
        return false;
    struct kv_slice answer = kv_slice(text, size);
    bool made = nats_json_string(answer, "name", &found) && found.size < 64 &&
                nats_json_string(answer, "ts", &time) &&
                nats_sweep_take_time(time, &sweep->servers_ms);
    if (made)
        snprintf(name, 64, "%.*s", (int)found.size, (const char *)found.data);
    free(text);
    uint64_t own_ms = clock_realtime_ms();
    sweep->now_ms = sweep->servers_ms < own_ms ? sweep->servers_ms : own_ms;
    return made;
}

static void remove_consumer(struct nats_sweep *sweep, const char *stream, const char *name)
{
    char subject[NATS_STREAM_NAME_BYTES + 128], *text = NULL;
    size_t size;
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.DELETE.%s.%s", stream, name);
    if (nats_ask(sweep->engine->link, subject, "", ASK_MS, &text, &size) == KV_OK)
        free(text);
}

/* Returns true if the leader has nothing behind the last message that was seen; the consumer may be
 * on another server, which may be behind. */
static bool has_seen_all(struct nats_sweep *sweep, const char *stream)
{
    char subject[NATS_STREAM_NAME_BYTES + 32], json[64], *text = NULL;
    struct nats_entry entry = {0};
    size_t size;
    snprintf(subject, sizeof subject, "$JS.API.STREAM.MSG.GET.%s", stream);
    snprintf(json, sizeof json, "{\"seq\":%" PRIu64 ",\"next_by_subj\":\">\"}",
             sweep->last_sequence + 1);
    if (nats_ask(sweep->engine->link, subject, json, ASK_MS, &text, &size) != KV_OK)
        return false;
    bool seen_all =
        nats_entry_from_json(kv_slice(text, size), &entry) == KV_OK && entry.sequence == 0;
    nats_entry_free(&entry);
    free(text);
    return seen_all;
}

/* Asks for the number of replicas: if a stream with one gets more, it is read in another way. */
static void look_for_replicas(struct nats_sweep *sweep)
{
    for (uint32_t shard = 0; shard < sweep->engine->bucket.shards; shard++)
        if (nats_look_replicas(sweep->engine, shard) == 1)
            nats_look_again(sweep->engine, shard);
}

/* Sweeps a stream from its beginning. False: the sweep did not reach the end, or another daemon
 * sweeps. */
static bool sweep_shard(struct nats_sweep *sweep, uint32_t shard)
{
    char stream[NATS_STREAM_NAME_BYTES], name[64], subject[NATS_STREAM_NAME_BYTES + 128], json[64];
    unsigned visited = PAGE;
    bool goes_on = true;
    struct nats_holdings before;
    nats_look_tell(sweep->engine, shard, &before);
    sweep->shard = shard;
    sweep->last_sequence = 0;
    sweep->next_ms = UINT64_MAX;
    nats_bucket_stream(&sweep->engine->bucket, shard, stream);
    if (!make_consumer(sweep, stream, name))
        return false;
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%s.%s", stream, name);
    snprintf(json, sizeof json, "{\"batch\":%u,\"no_wait\":true}", PAGE);
    while (goes_on && visited == PAGE) {
        goes_on = nats_ask_many(sweep->engine->link, subject, json, ASK_MS, PAGE, look_at_message,
                                sweep, &visited) == KV_OK;
        remove_expired(sweep);
        look_for_replicas(sweep);
        goes_on =
            goes_on && !is_ending(sweep) &&
            (clock_monotonic_coarse_ms() - sweep->sweeper_ms < SILENCE_MS / 3 || is_sweeper(sweep));
    }
    remove_consumer(sweep, stream, name);
    /* The last messages may have been removed; then no message has the last sequence of the
     * stream. */
    if (goes_on && sweep->last_sequence < before.last_sequence && has_seen_all(sweep, stream))
        sweep->last_sequence = before.last_sequence;
    sweep->shards[shard] = (struct swept_shard){0};
    if (goes_on)
        sweep->shards[shard] = (struct swept_shard){sweep->last_sequence, sweep->next_ms};
    return goes_on;
}

/* Returns true if some message of the stream may have to be removed. */
static bool is_due(struct nats_sweep *sweep, uint32_t shard)
{
    struct nats_holdings holdings;
    nats_look_tell(sweep->engine, shard, &holdings);
    return holdings.last_sequence != sweep->shards[shard].last_sequence ||
           clock_realtime_ms() >= sweep->shards[shard].next_ms;
}

static void wait_ms(struct nats_sweep *sweep, uint64_t ms)
{
    const struct timespec until = clock_time_after_ms(CLOCK_MONOTONIC, ms);
    pthread_mutex_lock(&sweep->lock);
    while (!sweep->ending && pthread_cond_timedwait(&sweep->wake, &sweep->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&sweep->lock);
}

static void *run_sweeper(void *argument)
{
    struct nats_sweep *sweep = argument;
    uint32_t shards = sweep->engine->bucket.shards;
    while (!is_ending(sweep)) {
        uint64_t begun_ms = clock_monotonic_coarse_ms();
        bool sweeps = is_sweeper(sweep);
        struct nats_holdings unused;
        if (sweeps)
            nats_look_sum(sweep->engine, &unused);
        for (uint32_t shard = 0; sweeps && shard < shards; shard++)
            if (is_due(sweep, shard))
                sweeps = sweep_shard(sweep, shard);
        uint64_t took_ms = clock_monotonic_coarse_ms() - begun_ms;
        uint64_t idle_ms = sweeps && took_ms * IDLE_FOR > EVERY_MS ? took_ms * IDLE_FOR : EVERY_MS;
        idle_ms -= random_secret() % (EVERY_MS / 4);
        for (uint64_t part_ms; idle_ms > 0 && !is_ending(sweep); idle_ms -= part_ms) {
            part_ms = idle_ms < EVERY_MS ? idle_ms : EVERY_MS;
            look_for_replicas(sweep);
            wait_ms(sweep, part_ms);
        }
    }
    return NULL;
}

/* Life ----------------------------------------------------------------------------------------- */

enum kv_status nats_sweep_start(struct nats_engine *engine, struct nats_sweep **result,
                                struct kv_error *error)
{
    sigset_t all, before;
    pthread_condattr_t attributes;
    struct nats_sweep *sweep = calloc(1, sizeof *sweep);
    if (sweep)
        sweep->shards = calloc(engine->bucket.shards, sizeof *sweep->shards);
    if (!sweep || !sweep->shards) {
        free(sweep);
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    }
    sweep->engine = engine;
    pthread_mutex_init(&sweep->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&sweep->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    sem_init(&sweep->removed, 0, 0);
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&sweep->thread, NULL, run_sweeper, sweep);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (problem == 0) {
        *result = sweep;
        return KV_OK;
    }
    sem_destroy(&sweep->removed);
    pthread_cond_destroy(&sweep->wake);
    pthread_mutex_destroy(&sweep->lock);
    free(sweep->shards);
    free(sweep);
    return kv_error_set_no_thread(error, problem, "cannot start a thread for NATS");
}

void nats_sweep_stop(struct nats_sweep *sweep)
{
    if (!sweep)
        return;
    pthread_mutex_lock(&sweep->lock);
    sweep->ending = true;
    pthread_cond_signal(&sweep->wake);
    pthread_mutex_unlock(&sweep->lock);
    pthread_join(sweep->thread, NULL);
    sem_destroy(&sweep->removed);
    pthread_cond_destroy(&sweep->wake);
    pthread_mutex_destroy(&sweep->lock);
    free(sweep->shards);
    free(sweep);
}

uint64_t nats_sweep_removed(const struct nats_sweep *sweep)
{
    return sweep ? atomic_load_explicit(&sweep->removed_total, memory_order_relaxed) : 0;
}

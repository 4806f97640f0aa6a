#include "bridges/kresp/session/channel_link.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"
#include "common/time/clock.h"
#include "bridges/kresp/session/keyspace_events.h"

#define HERE_KEY    REDIS_STORE_OWN_PREFIX "here"
#define MESSAGE_KEY REDIS_STORE_OWN_PREFIX "from:"

/* An entry of HERE_KEY counts for HERE_MS, and is renewed every RENEW_MS; messages stay in their
 * key for MESSAGE_MS. */
#define HERE_MS    60000u
#define RENEW_MS   20000u
#define MESSAGE_MS 5000u

/* After a failure the store is asked again. */
#define AGAIN_MS 1000u

/* How often an entry is written again because another kresp wrote its own in between. */
#define ENTRY_TRIES 50u

#define NAME_BYTES  17u /* of a kresp: 16 hexadecimal digits */
#define ENTRY_BYTES 64u
#define HERE_BYTES  (256u * ENTRY_BYTES) /* what HERE_KEY is read up to */

/* Operations of one call, when many messages are sent. */
#define SENT_AT_ONCE 16u

/* How many changes are taken before anything else is done that may be due. */
#define TAKEN_AT_ONCE 1024u

struct channel_link {
    struct redis_store *store;
    struct redis_channels *channels;
    struct tracking_table *tracking;
    char name[NAME_BYTES];
    char message_key[sizeof MESSAGE_KEY + NAME_BYTES];
    int wake_fd;
    _Atomic uint64_t asked_ms;       /* when a client subscribed last; monotonic */
    atomic_bool is_joined;           /* messages come, and the others know */
    atomic_bool has_request;         /* the thread is to look at what is below */
    _Atomic uint64_t rests_until_ms; /* after a wait in vain nothing is sent; monotonic */
    pthread_mutex_t lock;            /* covers the following */
    pthread_t thread;
    bool has_thread, is_stopping;
    bool is_failing; /* the last try to join has failed: nobody waits for the next */
    unsigned events; /* of keys that clients are told */
    unsigned asked_events;
    uint64_t events_asked, events_done; /* how often asked_events was set, and has been looked at */
    struct kv_error events_error;       /* why the last were refused */
    /* The thread's own: */
    struct clientk_watch *watch, *keys_watch; /* keys_watch: of all keys; NULL: nobody is told */
    uint64_t renew_ms;                        /* when the entry has to be written again */
    bool is_complained;
};

/* The key that says who has subscribers -------------------------------------------------------- */

/* Takes the next line "NAME UNTIL_MS" off the text; false: there is none. Lines that are none are
 * left out. */
static bool next_here(struct kv_slice *text, char name[NAME_BYTES], uint64_t *until_ms)
{
    while (text->size > 0) {
        char line[ENTRY_BYTES];
        const char *data = text->data, *end = memchr(data, '\n', text->size);
        size_t size = end ? (size_t)(end - data) : text->size;
        snprintf(line, sizeof line, "%.*s", (int)(size < sizeof line ? size : 0), data);
        *text = kv_slice(data + size + (end != NULL), text->size - size - (end != NULL));
        if (sscanf(line, "%16[0-9a-f] %" SCNu64, name, until_ms) == 2 &&
            strlen(name) == NAME_BYTES - 1)
            return true;
    }
    return false;
}

static enum kv_status read_here(struct redis_store *store, struct clientk_result *result)
{
    const struct clientk_operation get = {.opcode = CLIENTK_GET,
                                          .key = kv_slice_from_string(HERE_KEY)};
    *result = (struct clientk_result){0};
    redis_store_execute(store, &get, 1, result);
    return result->status;
}

static struct kv_slice here_text(const struct clientk_result *result)
{
    size_t size = result->status == KV_OK ? result->value.size : 0;
    return kv_slice(result->value.data, size < HERE_BYTES ? size : HERE_BYTES);
}

/* Returns true if the entries name this kresp, or one that is not this. */
static bool names_kresp(const struct channel_link *link, struct kv_slice text, bool itself)
{
    char name[NAME_BYTES];
    uint64_t until_ms, now_ms = clock_realtime_ms();
    while (next_here(&text, name, &until_ms))
        if (until_ms > now_ms && (strcmp(name, link->name) == 0) == itself)
            return true;
    return false;
}

/* Copies the entries of the others that count, and adds the own if it is here. Returns the size. */
static size_t change_entries(const struct channel_link *link, struct kv_slice text, bool is_here,
                             char out[HERE_BYTES + ENTRY_BYTES])
{
    char name[NAME_BYTES];
    uint64_t until_ms, now_ms = clock_realtime_ms();
    size_t size = 0;
    while (size < HERE_BYTES - ENTRY_BYTES && next_here(&text, name, &until_ms))
        if (until_ms > now_ms && until_ms <= now_ms + HERE_MS && strcmp(name, link->name) != 0)
            size += (size_t)sprintf(out + size, "%s %" PRIu64 "\n", name, until_ms);
    if (is_here)
        size += (size_t)sprintf(out + size, "%s %" PRIu64 "\n", link->name, now_ms + HERE_MS);
    return size;
}

/* Writes the own entry, or takes it away, unless somebody else writes in between. */
static enum kv_status try_entry(const struct channel_link *link, bool is_here)
{
    static const struct clientk_result nothing;
    char *out = malloc(HERE_BYTES + ENTRY_BYTES);
    struct clientk_result before, after = nothing;
    enum kv_status status = out ? read_here(link->store, &before) : KV_NO_MEMORY;
    if (status == KV_OK || status == KV_NOT_FOUND) {
        size_t size = change_entries(link, here_text(&before), is_here, out);
        struct clientk_operation write = {
            .opcode = size > 0 ? CLIENTK_PUT : CLIENTK_DELETE,
            .key = kv_slice_from_string(HERE_KEY),
            .value = kv_slice(out, size),
            .write = {.if_version = status == KV_OK ? before.value.version : 0,
                      .if_absent = status == KV_NOT_FOUND && size > 0,
                      .expiry_ms = size > 0 ? clock_realtime_ms() + HERE_MS : 0}};
        if (size > 0 || status == KV_OK)
            redis_store_execute(link->store, &write, 1, &after);
        status = after.status;
    }
    if (out)
        clientk_value_free(&before.value);
    clientk_value_free(&after.value);
    free(out);
    return status;
}

static enum kv_status write_entry(const struct channel_link *link, bool is_here)
{
    enum kv_status status = KV_OVERLOADED;
    for (unsigned i = 0; i < ENTRY_TRIES; i++) {
        status = try_entry(link, is_here);
        if (status != KV_VERSION_MISMATCH && status != KV_EXISTS && status != KV_NOT_FOUND)
            break;
    }
    return status;
}

/* The thread ----------------------------------------------------------------------------------- */

/* Says once what keeps it from the others, until it has joined. */
static void complain_of_link(struct channel_link *link, const char *why)
{
    if (!link->is_complained)
        log_warn("channels reach the clients of this kresp alone: %s (it is tried again)", why);
    link->is_complained = true;
}

/* Watches, then says that it is here; so no message is missed that is sent to it. */
static bool join_others(struct channel_link *link)
{
    struct kv_error error = {0};
    if (!link->watch)
        link->watch = redis_store_watch(link->store, kv_slice_from_string(REDIS_STORE_OWN_PREFIX),
                                        false, &error);
    if (!link->watch) {
        complain_of_link(link, error.text);
        return false;
    }
    enum kv_status status = write_entry(link, true);
    if (status != KV_OK) {
        complain_of_link(link, kv_status_text(status));
        return false;
    }
    if (link->is_complained)
        log_info("channels reach the clients of other kresp again");
    link->is_complained = false;
    link->renew_ms = clock_monotonic_coarse_ms() + RENEW_MS;
    return true;
}

/* A try to join has ended. */
static void note_try(struct channel_link *link, bool joined)
{
    atomic_store(&link->is_joined, joined);
    pthread_mutex_lock(&link->lock);
    link->is_failing = !joined;
    pthread_mutex_unlock(&link->lock);
    redis_channels_wake(link->channels);
}

/* Nobody has subscribed for some time, and nobody is subscribed. A client that subscribes meanwhile
 * is seen here, or sees that it has to wait. */
static bool may_leave(struct channel_link *link)
{
    if (redis_channels_are_used(link->channels))
        return false;
    return clock_monotonic_coarse_ms() - atomic_load(&link->asked_ms) >= RENEW_MS;
}

static void leave_others(struct channel_link *link)
{
    atomic_store(&link->is_joined, false);
    if (!may_leave(link)) {
        note_try(link, true);
        return;
    }
    write_entry(link, false);
    clientk_watch_close(link->watch);
    link->watch = NULL;
}

/* Publishes what another kresp has put together. Others may write such keys, too: whatever they
 * are, they are messages or nothing. */
static void take_messages(struct channel_link *link, struct kv_slice frames)
{
    uint32_t sizes[2];
    const char *at = frames.data;
    size_t left = frames.size;
    while (left >= sizeof sizes) {
        memcpy(sizes, at, sizeof sizes);
        at += sizeof sizes;
        left -= sizeof sizes;
        if (sizes[0] > left || sizes[1] > left - sizes[0])
            return;
        redis_channels_publish(link->channels, kv_slice(at, sizes[0]),
                               kv_slice(at + sizes[0], sizes[1]));
        at += sizes[0] + sizes[1];
        left -= (size_t)sizes[0] + sizes[1];
    }
}

static void take_link_change(struct channel_link *link, const struct clientk_change *change)
{
    bool is_put = change->kind == CLIENTK_CHANGE_PUT;
    if (kv_slice_equal(change->key, kv_slice_from_string(HERE_KEY))) {
        if (!is_put || !names_kresp(link, change->value, true))
            link->renew_ms = 0; /* somebody has deleted it */
    } else if (is_put && kv_slice_has_prefix(change->key, kv_slice_from_string(MESSAGE_KEY)) &&
               !kv_slice_equal(change->key, kv_slice_from_string(link->message_key))) {
        take_messages(link, change->value);
    }
}

static void take_key_change(struct channel_link *link, const struct clientk_change *change)
{
    if (redis_store_owns(change->key))
        return;
    tracking_table_tell(link->tracking, change->key, change->version);
    keyspace_events_publish(link->channels, channel_link_events(link), change);
}

/* Takes what the watch has, up to TAKEN_AT_ONCE changes, or until something is asked for.
 * WATCH_MORE: there may be more. */
enum watch_state { WATCH_READ, WATCH_MORE, WATCH_ILL };

static enum watch_state take_link_changes(struct channel_link *link, struct clientk_watch *watch,
                                          void (*take)(struct channel_link *link,
                                                       const struct clientk_change *change))
{
    static struct log_pace pace = LOG_PACE(10000);
    char unsaid[LOG_PACE_TEXT_BYTES];
    struct clientk_change change;
    enum kv_status status = KV_OK;
    if (!watch)
        return WATCH_READ;
    for (unsigned i = 0; i < TAKEN_AT_ONCE; i++) {
        status = clientk_watch_next(watch, 0, &change);
        if (status != KV_OK)
            break;
        take(link, &change);
        if (atomic_load(&link->has_request))
            return WATCH_MORE;
    }
    if (status == KV_MISSED && log_pace_allows(&pace, unsaid))
        log_warn("messages of other kresp, or events of keys, have been missed: the server does "
                 "not know them any more%s",
                 unsaid);
    if (status == KV_MISSED && watch == link->keys_watch)
        tracking_table_tell_all(link->tracking);
    if (status == KV_OK || status == KV_MISSED)
        return WATCH_MORE;
    return status == KV_TIMEOUT ? WATCH_READ : WATCH_ILL; /* it is asked again after a while */
}

static bool link_is_stopping(struct channel_link *link)
{
    pthread_mutex_lock(&link->lock);
    bool stopping = link->is_stopping;
    pthread_mutex_unlock(&link->lock);
    return stopping;
}

/* Does what is due, and returns how long to wait for more. */
static int do_what_is_due(struct channel_link *link, bool is_well)
{
    if (!atomic_load(&link->is_joined)) {
        if (may_leave(link))
            return -1;
        note_try(link, join_others(link));
    } else if (clock_monotonic_coarse_ms() >= link->renew_ms) {
        if (may_leave(link))
            leave_others(link);
        else if (!join_others(link))
            link->renew_ms = clock_monotonic_coarse_ms() + AGAIN_MS;
    }
    if (!atomic_load(&link->is_joined) || !is_well)
        return (int)AGAIN_MS;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    return link->renew_ms > now_ms ? (int)(link->renew_ms - now_ms) : 0;
}

/* Begins to watch the keys, if a client has asked to be told of them, and ends when nobody is. */
static void change_events(struct channel_link *link)
{
    struct kv_error error = {.text = ""};
    atomic_store(&link->has_request, false);
    pthread_mutex_lock(&link->lock);
    uint64_t asked = link->events_asked;
    bool is_asked = asked != link->events_done;
    unsigned events = link->asked_events;
    pthread_mutex_unlock(&link->lock);
    if (!is_asked && !link->keys_watch)
        return;
    /* A client enters the table before it asks, so it is seen here. */
    if (!keyspace_events_tell(events) && tracking_table_count(link->tracking).clients == 0) {
        clientk_watch_close(link->keys_watch);
        link->keys_watch = NULL;
    } else if (!link->keys_watch) {
        link->keys_watch = redis_store_watch(link->store, kv_slice(NULL, 0), true, &error);
    }
    if (!is_asked)
        return;
    pthread_mutex_lock(&link->lock);
    if (link->keys_watch || !keyspace_events_tell(events))
        link->events = events;
    else
        link->asked_events = link->events;
    link->events_error = error;
    link->events_done = asked;
    pthread_mutex_unlock(&link->lock);
    redis_channels_wake(link->channels);
}

static void *run_channel_link(void *argument)
{
    struct channel_link *link = argument;
    bool is_well = true, has_more = false;
    while (!link_is_stopping(link)) {
        change_events(link);
        int timeout_ms = do_what_is_due(link, is_well);
        if (has_more)
            timeout_ms = 0;
        struct pollfd watched[] = {{link->wake_fd, POLLIN, 0}, {-1, POLLIN, 0}, {-1, POLLIN, 0}};
        uint64_t wakes;
        if (link->watch && is_well)
            watched[1].fd = clientk_watch_fd(link->watch);
        if (link->keys_watch && is_well)
            watched[2].fd = clientk_watch_fd(link->keys_watch);
        poll(watched, 3, is_well || timeout_ms >= 0 ? timeout_ms : (int)AGAIN_MS);
        if (watched[0].revents && read(link->wake_fd, &wakes, sizeof wakes) < 0 && errno != EAGAIN)
            log_warn("the wake-up of a thread cannot be read: error %d", errno);
        enum watch_state of_link = take_link_changes(link, link->watch, take_link_change);
        enum watch_state of_keys = take_link_changes(link, link->keys_watch, take_key_change);
        if (is_well && of_keys == WATCH_ILL)
            tracking_table_tell_all(link->tracking);
        is_well = of_link != WATCH_ILL && of_keys != WATCH_ILL;
        has_more = of_link == WATCH_MORE || of_keys == WATCH_MORE;
    }
    if (atomic_load(&link->is_joined))
        write_entry(link, false);
    clientk_watch_close(link->watch);
    clientk_watch_close(link->keys_watch);
    note_try(link, false);
    return NULL;
}

/* From other threads --------------------------------------------------------------------------- */

static void wake_link(const struct channel_link *link)
{
    const uint64_t one = 1;
    if (write(link->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
        log_warn("a thread cannot be woken: error %d", errno);
}

struct channel_link *channel_link_new(struct redis_store *store, struct tracking_table *tracking)
{
    struct channel_link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->store = store;
    link->channels = tracking->channels;
    link->tracking = tracking;
    link->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (link->wake_fd < 0) {
        free(link);
        return NULL;
    }
    pthread_mutex_init(&link->lock, NULL);
    snprintf(link->name, sizeof link->name, "%016" PRIx64, random_secret());
    snprintf(link->message_key, sizeof link->message_key, "%s%s", MESSAGE_KEY, link->name);
    return link;
}

void channel_link_free(struct channel_link *link)
{
    if (!link)
        return;
    pthread_mutex_lock(&link->lock);
    link->is_stopping = true;
    atomic_store(&link->has_request, true);
    pthread_mutex_unlock(&link->lock);
    wake_link(link);
    if (link->has_thread)
        pthread_join(link->thread, NULL);
    close(link->wake_fd);
    pthread_mutex_destroy(&link->lock);
    free(link);
}

/* Under the lock. */
static bool start_link_thread(struct channel_link *link)
{
    if (!link->has_thread) {
        link->has_thread = pthread_create(&link->thread, NULL, run_channel_link, link) == 0;
        if (link->has_thread)
            pthread_setname_np(link->thread, "kresp-link");
        else
            log_warn("channels reach the clients of this kresp alone: no thread can be started");
    }
    return link->has_thread;
}

bool channel_link_join(struct channel_link *link)
{
    if (!link)
        return true;
    atomic_store(&link->asked_ms, clock_monotonic_coarse_ms());
    if (atomic_load(&link->is_joined))
        return true;
    pthread_mutex_lock(&link->lock);
    bool is_known = !start_link_thread(link) || link->is_failing;
    if (link->has_thread)
        wake_link(link);
    pthread_mutex_unlock(&link->lock);
    return is_known || atomic_load(&link->is_joined);
}

unsigned channel_link_events(struct channel_link *link)
{
    pthread_mutex_lock(&link->lock);
    unsigned events = link->events;
    pthread_mutex_unlock(&link->lock);
    return events;
}

/* Under the lock. */
static uint64_t ask_thread(struct channel_link *link, bool needs_thread)
{
    uint64_t request = ++link->events_asked;
    atomic_store(&link->has_request, true);
    if (needs_thread && start_link_thread(link)) {
        wake_link(link);
    } else {
        link->events_done = request;
        link->events_error = (struct kv_error){.text = ""};
        if (needs_thread)
            snprintf(link->events_error.text, sizeof link->events_error.text,
                     "no thread can be started");
    }
    return request;
}

uint64_t channel_link_ask_events(struct channel_link *link, unsigned events)
{
    pthread_mutex_lock(&link->lock);
    link->asked_events = events;
    uint64_t request = ask_thread(link, link->has_thread || link->events != events);
    pthread_mutex_unlock(&link->lock);
    return request;
}

uint64_t channel_link_ask_tracking(struct channel_link *link)
{
    pthread_mutex_lock(&link->lock);
    uint64_t request = ask_thread(link, true);
    pthread_mutex_unlock(&link->lock);
    return request;
}

enum link_answer channel_link_answer(struct channel_link *link, uint64_t request,
                                     struct kv_error *error)
{
    pthread_mutex_lock(&link->lock);
    enum link_answer answer = LINK_IS_BUSY;
    if (link->events_done >= request)
        answer = *link->events_error.text ? LINK_REFUSES : LINK_TELLS;
    *error = link->events_error;
    pthread_mutex_unlock(&link->lock);
    return answer;
}

static void log_unsent(enum kv_status status)
{
    static struct log_pace pace = LOG_PACE(10000);
    char unsaid[LOG_PACE_TEXT_BYTES];
    if (log_pace_allows(&pace, unsaid))
        log_warn("messages have not reached other kresp: %s%s", kv_status_text(status), unsaid);
}

/* Returns how many of the bytes, which begin with a message, are whole messages of at most `most`
 * bytes, or one. */
static size_t whole_messages(struct kv_slice frames, size_t most)
{
    uint32_t sizes[2];
    size_t whole = 0;
    while (whole < frames.size) {
        memcpy(sizes, (const char *)frames.data + whole, sizeof sizes);
        size_t next = whole + sizeof sizes + sizes[0] + sizes[1];
        if (next > most && whole > 0)
            break;
        whole = next;
    }
    return whole;
}

static void put_messages(struct channel_link *link, struct kv_slice frames)
{
    size_t most = redis_store_max_value_bytes(link->store);
    while (frames.size > 0) {
        struct clientk_operation puts[SENT_AT_ONCE];
        struct clientk_result results[SENT_AT_ONCE] = {0};
        size_t count = 0;
        for (; count < SENT_AT_ONCE && frames.size > 0; count++) {
            size_t whole = whole_messages(frames, most);
            puts[count] =
                (struct clientk_operation){.opcode = CLIENTK_PUT,
                                           .key = kv_slice_from_string(link->message_key),
                                           .value = kv_slice(frames.data, whole),
                                           .write.expiry_ms = clock_realtime_ms() + MESSAGE_MS};
            frames = kv_slice((const char *)frames.data + whole, frames.size - whole);
        }
        redis_store_execute(link->store, puts, count, results);
        for (size_t i = 0; i < count; i++) {
            if (results[i].status != KV_OK)
                log_unsent(results[i].status);
            clientk_value_free(&results[i].value);
        }
    }
}

void channel_link_send(struct channel_link *link, struct byte_buffer *messages)
{
    struct clientk_result here = {0};
    uint64_t began_ms = clock_monotonic_coarse_ms();
    enum kv_status status = messages->failed                                ? KV_NO_MEMORY
                            : began_ms < atomic_load(&link->rests_until_ms) ? KV_NO_SERVER
                                                                            : KV_OK;
    if (status == KV_OK)
        status = read_here(link->store, &here);
    uint64_t now_ms = clock_monotonic_coarse_ms();
    if (status != KV_OK && now_ms - began_ms >= AGAIN_MS)
        atomic_store(&link->rests_until_ms, now_ms + AGAIN_MS);
    if (status == KV_OK && names_kresp(link, here_text(&here), false))
        put_messages(link, byte_buffer_slice(messages));
    else if (status != KV_OK && status != KV_NOT_FOUND)
        log_unsent(status);
    clientk_value_free(&here.value);
    byte_buffer_free(messages);
}

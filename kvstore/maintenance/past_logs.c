#include "kvstore/maintenance/past_logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/time/clock.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/fileio.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/maintenance/old_logs.h"
#include "kvstore/table/position.h"

#define NS_PER_MS      UINT64_C(1000000)
#define BYTES_OF_BLOCK 512u /* unit of st_blocks */

struct past_log {
    uint32_t number; /* number of the data file */
    bool on_disk;
    bool is_kept; /* past_logs_keep */
    uint64_t stream;
    uint64_t bytes;    /* on disk */
    uint64_t since_ms; /* clock_realtime_ms: when it was replaced */
    struct past_link link;
};

struct past_logs {
    const struct store_context *context;
    pthread_mutex_t mutex;
    struct past_log *logs; /* oldest first */
    size_t count, capacity;
    uint64_t bytes;
    bool full_told;
    _Atomic uint64_t used_until_ms; /* clock_monotonic_coarse_ms: somebody follows the changes */
    atomic_bool room_wanted;
    kvstore_change_listener listener; /* constant once somebody follows */
    void *listener_context;
};

struct past_logs *past_logs_create(const struct store_context *context)
{
    struct past_logs *past = calloc(1, sizeof *past);
    if (!past)
        return NULL;
    past->context = context;
    pthread_mutex_init(&past->mutex, NULL);
    return past;
}

void past_logs_free(struct past_logs *past)
{
    if (!past)
        return;
    pthread_mutex_destroy(&past->mutex);
    free(past->logs);
    free(past);
}

static uint64_t keep_ms(const struct past_logs *past)
{
    return at_least(past->context->options.keep_changes_ms, PAST_LOGS_MIN_MS);
}

void past_logs_use(struct past_logs *past)
{
    atomic_store_explicit(&past->used_until_ms, clock_monotonic_coarse_ms() + keep_ms(past),
                          memory_order_relaxed);
}

bool past_logs_are_wanted(struct past_logs *past)
{
    return past && (past->context->options.keep_changes_ms > 0 ||
                    clock_monotonic_coarse_ms() <
                        atomic_load_explicit(&past->used_until_ms, memory_order_relaxed));
}

/* The list ------------------------------------------------------------------------------------- */

/* Adds the log to the list. False: out of memory. Holds: mutex, or no other thread knows the list
 * yet. */
static bool past_list_add(struct past_logs *past, const struct past_log *log)
{
    if (past->count == past->capacity) {
        size_t capacity = at_least(past->capacity * 2, 16);
        struct past_log *logs = realloc(past->logs, capacity * sizeof *logs);
        if (!logs)
            return false;
        past->logs = logs;
        past->capacity = capacity;
    }
    past->logs[past->count++] = *log;
    past->bytes += log->bytes;
    return true;
}

/* Holds: mutex. */
static const struct past_log *find_past_log(const struct past_logs *past, uint32_t number,
                                            uint64_t stream)
{
    KV_ASSERT(mutex_is_held(&past->mutex));
    for (size_t i = past->count; i-- > 0;)
        if (past->logs[i].stream == stream && past->logs[i].number == number)
            return &past->logs[i];
    return NULL;
}

bool past_logs_find(struct past_logs *past, uint32_t number, uint64_t stream,
                    struct past_link *link)
{
    pthread_mutex_lock(&past->mutex);
    const struct past_log *found = find_past_log(past, number, stream);
    if (found)
        *link = found->link;
    pthread_mutex_unlock(&past->mutex);
    return found != NULL;
}

struct past_logs_facts past_logs_facts(struct past_logs *past, uint32_t number)
{
    struct past_logs_facts facts = {0};
    pthread_mutex_lock(&past->mutex);
    for (size_t i = 0; i < past->count; i++) {
        if (past->logs[i].number != number || !past->logs[i].on_disk)
            continue;
        facts.count++;
        facts.bytes += past->logs[i].bytes;
    }
    pthread_mutex_unlock(&past->mutex);
    return facts;
}

/* Keeping -------------------------------------------------------------------------------------- */

static uint64_t open_file_disk_bytes(int fd)
{
    struct stat facts;
    return fstat(fd, &facts) == 0 ? (uint64_t)facts.st_blocks * BYTES_OF_BLOCK : 0;
}

/* Describes the log that is being replaced, and the log that replaces it. False: changes are not
 * kept. */
static bool describe_past_log(struct past_logs *past, struct datafile *file, struct past_log *log)
{
    if (!past_logs_are_wanted(past))
        return false;
    struct logfile *current = &file->current->log;
    if (position_open_stream(current) != 0 || position_open_stream(&file->next->log) != 0)
        return false;
    *log = (struct past_log){.number = file->number,
                             .stream = current->stream,
                             .bytes = open_file_disk_bytes(current->fd),
                             .since_ms = clock_realtime_ms(),
                             .link = {.salt = current->identity.salt,
                                      .end = current->tail,
                                      .last = position_of_tail(file->current, true),
                                      .max_version = file->current->words->max_version,
                                      .next = position_of_tail(file->next, true)}};
    return true;
}

/* Returns true if a log is small enough to be kept. */
static bool fits_kept_bytes(const struct store_context *context, const struct past_log *log,
                            const struct file_name *name)
{
    uint64_t most = context->options.keep_changes_bytes;
    if (context->options.keep_newest_log || log->bytes <= most)
        return true;
    log_warn("%s/%s: changes before this compaction are not kept: the log takes %" PRIu64
             " bytes, more than --keep-changes-bytes (%" PRIu64 ")",
             context->dir, name->text, log->bytes, most);
    return false;
}

/* Notes in the new log which log it replaces, and exchanges the names. If the file system cannot
 * exchange names, only a follower that has read the log to its end can continue. */
static bool exchange_names(const struct store_context *context, struct datafile *file,
                           const struct past_log *log, const struct file_name *name,
                           const struct file_name *new_name)
{
    struct logfile *next = &file->next->log;
    struct file_replaced replaced = {log->link.salt, log->link.end, next->tail};
    if (!fits_kept_bytes(context, log, name))
        return false;
    if (lognotes_put_replaced(next, &replaced) != 0) {
        log_warn("%s/%s: changes before this compaction are not kept: cannot note that in its "
                 "header: %s",
                 context->dir, name->text, strerror(errno));
        return false;
    }
    if (fileio->exchange_at(context->dir_fd, new_name->text, name->text) == 0)
        return true;
    log_warn("%s/%s: changes before this compaction are not kept: cannot exchange it with %s: %s",
             context->dir, name->text, new_name->text, strerror(errno));
    return false;
}

/* Gives the old log, which has the name of the new one now, a name of its own. A crash before that
 * leaves a file that the next start removes. */
static bool name_past(const struct store_context *context, const struct past_log *log,
                      const struct file_name *now)
{
    struct file_name name = file_name_past(log->number, log->link.salt);
    if (fileio->rename_at(context->dir_fd, now->text, name.text) == 0)
        return true;
    log_warn("%s/%s: changes before this compaction are not kept: cannot rename %s to it: %s",
             context->dir, name.text, now->text, strerror(errno));
    fileio->unlink_at(context->dir_fd, now->text);
    return false;
}

int past_logs_replace(struct past_logs *past, struct datafile *file)
{
    const struct store_context *context = past->context;
    KV_ASSERT(lockset_is_write_held(context->locks, file->number) && file->next);
    struct file_name name = file_name(file->number, FILE_LOG);
    struct file_name new_name = file_name(file->number, FILE_LOG_NEW);
    struct past_log log;
    bool wanted = describe_past_log(past, file, &log);
    bool exchanged = wanted && exchange_names(context, file, &log, &name, &new_name);
    if (!exchanged && fileio->rename_at(context->dir_fd, new_name.text, name.text) != 0)
        return -1;
    if (!wanted)
        return 0;
    log.on_disk = exchanged && name_past(context, &log, &new_name);
    if (!log.on_disk)
        log.bytes = 0;
    pthread_mutex_lock(&past->mutex);
    bool known = past_list_add(past, &log);
    pthread_mutex_unlock(&past->mutex);
    if (!known && log.on_disk)
        fileio->unlink_at(context->dir_fd, file_name_past(file->number, log.link.salt).text);
    return 0;
}

void past_logs_keep(struct past_logs *past, uint32_t number, uint64_t stream)
{
    pthread_mutex_lock(&past->mutex);
    for (size_t i = 0; i < past->count; i++)
        past->logs[i].is_kept |= past->logs[i].stream == stream && past->logs[i].number == number;
    pthread_mutex_unlock(&past->mutex);
}

/* Removing ------------------------------------------------------------------------------------- */

/* Returns true if log i is the newest of its data file, which is kept whatever its size. Times do
 * not decide, since several may have been replaced within a tick of the clock. Holds: mutex. */
static bool is_spared(const struct past_logs *past, size_t i)
{
    const struct past_log *log = &past->logs[i];
    if (!past->context->options.keep_newest_log || !log->on_disk)
        return false;
    while ((log = find_past_log(past, log->number, log->link.next.log)))
        if (log->on_disk)
            return false;
    return true;
}

/* Holds: mutex. */
static bool past_log_is_due(const struct past_logs *past, size_t i, uint64_t now_ms)
{
    uint64_t since_ms = past->logs[i].since_ms;
    return since_ms + keep_ms(past) <= now_ms || since_ms > now_ms + keep_ms(past) ||
           atomic_load(&past->room_wanted) ||
           (past->bytes > past->context->options.keep_changes_bytes && !is_spared(past, i));
}

/* Returns the log that log i has replaced; past->count: that log is gone. Holds: mutex. */
static size_t find_before(const struct past_logs *past, size_t i)
{
    const struct past_log *logs = past->logs;
    size_t before = 0;
    while (before < past->count &&
           (logs[before].number != logs[i].number || logs[before].link.next.log != logs[i].stream))
        before++;
    return before;
}

/* Returns the oldest log whose time has come; past->count: none. Logs of one tick of the clock may
 * stand in any order after a start, but a follower reads one after the other, and must not meet a
 * gap. Holds: mutex. */
static size_t find_due(const struct past_logs *past, uint64_t now_ms)
{
    size_t i = 0;
    while (i < past->count && !past_log_is_due(past, i, now_ms))
        i++;
    for (size_t left = past->count, before; i < past->count && left > 0; left--, i = before)
        if ((before = find_before(past, i)) == past->count)
            break;
    return i;
}

uint64_t past_logs_due_ns(struct past_logs *past)
{
    uint64_t due_ns = UINT64_MAX;
    pthread_mutex_lock(&past->mutex);
    if (past->count > 0) {
        uint64_t now_ms = clock_realtime_ms();
        uint64_t due_ms = past->logs[0].since_ms + keep_ms(past);
        uint64_t left_ms = at_most(due_ms > now_ms ? due_ms - now_ms : 0, keep_ms(past));
        bool now = find_due(past, now_ms) < past->count;
        due_ns = now ? 0 : clock_monotonic_ns() + left_ms * NS_PER_MS;
    }
    pthread_mutex_unlock(&past->mutex);
    return due_ns;
}

void past_logs_want_room(struct past_logs *past)
{
    atomic_store(&past->room_wanted, true);
}

/* Takes the oldest log off the list if its time has come. */
static bool take_due_log(struct past_logs *past, struct past_log *log)
{
    bool tell = false;
    pthread_mutex_lock(&past->mutex);
    uint64_t now_ms = clock_realtime_ms();
    size_t at = find_due(past, now_ms);
    bool due = at < past->count;
    if (due) {
        KV_ASSERT(past->bytes >= past->logs[at].bytes);
        *log = past->logs[at];
        past->bytes -= log->bytes;
        past->count--;
        memmove(past->logs + at, past->logs + at + 1, (past->count - at) * sizeof past->logs[0]);
        tell = log->since_ms + keep_ms(past) > now_ms && !past->full_told;
        past->full_told |= tell;
    }
    pthread_mutex_unlock(&past->mutex);
    if (tell)
        log_warn("%s: changes are kept for less time than asked for: %s (logged once)",
                 past->context->dir,
                 atomic_load(&past->room_wanted) ? "the disk is full"
                                                 : "they take more than --keep-changes-bytes");
    return due;
}

static void remove_past_log(const struct store_context *context, const struct past_log *log,
                            struct old_logs *old_logs)
{
    struct file_name name = file_name_past(log->number, log->link.salt);
    struct logfile file = {.fd =
                               fileio->open_at(context->dir_fd, name.text, O_RDWR | O_NOFOLLOW, 0)};
    if (fileio->unlink_at(context->dir_fd, name.text) == 0 && file.fd >= 0 &&
        arena_is_shared(context->arena))
        old_logs_add(old_logs, &file);
    if (file.fd >= 0)
        close(file.fd);
}

void past_logs_clear(struct past_logs *past, struct old_logs *old_logs)
{
    struct past_log log = {0};
    while (take_due_log(past, &log))
        if (log.on_disk && !log.is_kept)
            remove_past_log(past->context, &log, old_logs);
    atomic_store(&past->room_wanted, false);
}

/* Finding -------------------------------------------------------------------------------------- */

/* Reads the past log of that name into *log, without its link. False: `name` is no past log of this
 * store. */
static bool read_past_log(const struct store_context *context, const char *name, uint32_t number,
                          uint64_t salt, struct past_log *log, struct file_replaced *replaced)
{
    struct logfile file;
    struct stat facts;
    if (number >= context->datafiles ||
        logfile_open(&file, KVSTORE_IO_PREAD, context->dir_fd, name, false, NULL) != KV_OK)
        return false;
    bool sound = file.identity.salt == salt && file.identity.number == number &&
                 file.identity.store_seed == context->seed && fstat(file.fd, &facts) == 0;
    if (sound) {
        *log = (struct past_log){.number = number,
                                 .on_disk = true,
                                 .stream = file.stream,
                                 .link.salt = salt,
                                 .bytes = open_file_disk_bytes(file.fd),
                                 .since_ms = (uint64_t)facts.st_ctim.tv_sec * 1000 +
                                             (uint64_t)facts.st_ctim.tv_nsec / NS_PER_MS};
        lognotes_replaced(&file, replaced);
    }
    logfile_close(&file);
    return sound;
}

struct finding {
    struct past_log log;
    struct file_replaced replaced; /* the log that this one has replaced */
};

static int by_age(const void *a, const void *b)
{
    const struct finding *first = a, *second = b;
    return (first->log.since_ms > second->log.since_ms) -
           (first->log.since_ms < second->log.since_ms);
}

/* Finds all past logs in the directory, oldest first. The caller frees *found. -1: out of memory,
 * or the directory cannot be read. */
static ssize_t find_all(const struct store_context *context, struct finding **found)
{
    size_t count = 0, capacity = 0;
    *found = NULL;
    int fd = openat(context->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;
    if (!listing) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    for (const struct dirent *entry; (entry = readdir(listing));) {
        uint32_t number;
        uint64_t salt;
        if (!file_name_is_past(entry->d_name, &number, &salt))
            continue;
        if (count == capacity) {
            capacity = at_least(2 * capacity, 16);
            struct finding *grown = realloc(*found, capacity * sizeof *grown);
            if (!grown) {
                closedir(listing);
                return -1;
            }
            *found = grown;
        }
        struct finding *next = &(*found)[count];
        count += read_past_log(context, entry->d_name, number, salt, &next->log, &next->replaced);
    }
    closedir(listing);
    if (count > 0)
        qsort(*found, count, sizeof **found, by_age);
    return (ssize_t)count;
}

/* If the current log has replaced `log`: sets where the changes continue in it. Bytes that a killed
 * daemon had not synced are not yet known to be on disk: then the version before the record there
 * stands for what is on disk. */
static bool link_to_current(const struct datafile *file, struct past_log *log)
{
    const struct generation *current = file->current;
    struct file_replaced replaced;
    struct record record;
    uint64_t size_bytes;
    lognotes_replaced(&current->log, &replaced);
    if (replaced.salt != log->link.salt || replaced.begin > current->log.tail)
        return false;
    log->link.end = replaced.end;
    log->link.next = position_of_end(&current->log, replaced.begin);
    if (!file->taken_over || replaced.begin <= current->log.progress.synced_offset)
        return true;
    logfile_begin(&current->log, READ_BUFFER_VISIT);
    if (replaced.begin == current->log.tail)
        log->link.next.version |= current->words->max_version;
    else {
        enum record_verdict verdict =
            logfile_read(&current->log, READ_BUFFER_VISIT, replaced.begin, &record, &size_bytes);
        if (verdict != RECORD_VALID && verdict != RECORD_SUPERSEDED)
            return false;
        log->link.next.version |= record.version - 1;
    }
    return true;
}

static bool link_to_past(const struct finding *next, struct past_log *log)
{
    if (next->log.number != log->number || next->log.stream == 0 ||
        next->replaced.salt != log->link.salt)
        return false;
    log->link.end = next->replaced.end;
    log->link.next = (struct kvstore_position){
        .log = next->log.stream, .version = POSITION_END, .place = next->replaced.begin};
    return true;
}

/* Finds the log that replaced `log`. A log without a stream, whose note a power failure may have
 * taken, is useless: nobody has a position in it. */
static bool link_on(const struct store_context *context, struct finding *found, size_t count,
                    struct past_log *log)
{
    if (log->stream == 0)
        return false;
    bool linked = link_to_current(&context->files[log->number], log);
    for (size_t i = 0; i < count && !linked; i++)
        linked = link_to_past(&found[i], log);
    return linked;
}

enum kv_status past_logs_load(struct past_logs *past, struct kv_error *error)
{
    const struct store_context *context = past->context;
    struct finding *found;
    bool removed = false;
    ssize_t count = find_all(context, &found);
    if (count < 0)
        log_warn("%s: logs that were kept for their changes cannot be looked for (%s); what there "
                 "is of them stays until the next start",
                 context->dir, strerror(errno));
    for (ssize_t i = 0; i < count; i++) {
        struct past_log *log = &found[i].log;
        if (link_on(context, found, (size_t)count, log) && past_list_add(past, log))
            continue;
        fileio->unlink_at(context->dir_fd, file_name_past(log->number, log->link.salt).text);
        removed = true;
    }
    free(found);
    if (past->count > 0)
        past_logs_use(past);
    if (removed && fileio->sync_dir(context->dir_fd) != 0)
        return kv_error_set_errno(error, "%s: cannot sync the directory", context->dir);
    return KV_OK;
}

/* Followers ------------------------------------------------------------------------------------ */

void past_logs_set_listener(struct past_logs *past, kvstore_change_listener listener, void *context)
{
    past->listener_context = context;
    past->listener = listener;
}

void past_logs_tell_listener(struct past_logs *past, struct datafile *file)
{
    __atomic_store_n(&file->followed, false, __ATOMIC_RELAXED);
    if (past->listener)
        past->listener(past->listener_context, file->number);
}

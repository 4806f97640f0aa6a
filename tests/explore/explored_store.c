#include "tests/explore/explored_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kvstore/shared/shared_store.h"
#include "tests/explore/explore.h"
#include "tests/history/history.h"

#define VALUE_MAX (EXPLORE_LARGE_BYTES + 200u)

static char directory[64];

static struct {
    struct history_operation operations[EXPLORE_KEYS][HISTORY_MAX_OPERATIONS];
    unsigned counts[EXPLORE_KEYS];
    int64_t next_number;
} history;

static bool values_are_large;

/* Files --------------------------------------------------------------------------------------- */

static void remove_directory(const char *path)
{
    DIR *open = opendir(path);
    if (!open)
        return;
    for (struct dirent *entry = readdir(open); entry; entry = readdir(open))
        unlinkat(dirfd(open), entry->d_name, 0);
    closedir(open);
    rmdir(path);
}

/* The same, and the index that a store in it has left in shared memory. */
static void remove_store(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) == 0)
        shm_unlink(shared_store_name(facts.st_dev, facts.st_ino).text);
    remove_directory(path);
}

static void copy_directory(const char *from, const char *to)
{
    DIR *open = opendir(from);
    if (!open)
        explore_fail("cannot read %s", from);
    for (struct dirent *entry = readdir(open); entry; entry = readdir(open)) {
        char path[sizeof directory + sizeof entry->d_name];
        struct stat facts;
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", to, entry->d_name);
        int source = openat(dirfd(open), entry->d_name, O_RDONLY | O_CLOEXEC);
        int target = creat(path, 0600);
        bool done = source >= 0 && target >= 0 && fstat(source, &facts) == 0 &&
                    sendfile(target, source, NULL, (size_t)facts.st_size) == facts.st_size;
        close(source);
        close(target);
        if (!done)
            explore_fail("cannot copy %s", path);
    }
    closedir(open);
}

/* Making a store takes longer than a schedule, so it is made once for a number of data files. */
const char *explore_directory(const struct kvstore_options *options)
{
    static char template[sizeof directory + 16];
    static uint32_t made_datafiles;
    snprintf(directory, sizeof directory, "/dev/shm/mqkv-explore-%ld", (long)getpid());
    remove_directory(directory);
    if (mkdir(directory, 0700) != 0)
        explore_fail("cannot make %s", directory);
    if (made_datafiles != options->datafiles) {
        if (made_datafiles != 0)
            remove_directory(template);
        snprintf(template, sizeof template, "%s.template", directory);
        remove_directory(template);
        explore_store_close(explore_store_open(options));
        if (rename(directory, template) != 0 || mkdir(directory, 0700) != 0)
            explore_fail("cannot rename %s", directory);
        made_datafiles = options->datafiles;
    }
    copy_directory(template, directory);
    return directory;
}

void explore_remove_directories(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/mqkv-explore-%ld", (long)process);
    remove_store(path);
    snprintf(path, sizeof path, "/dev/shm/mqkv-explore-%ld.template", (long)process);
    remove_directory(path);
}

void explore_remove_stale_directories(void)
{
    DIR *open = opendir("/dev/shm");
    if (!open)
        return;
    for (struct dirent *entry = readdir(open); entry; entry = readdir(open)) {
        long process;
        if (sscanf(entry->d_name, "mqkv-explore-%ld", &process) == 1 && process > 0 &&
            kill((pid_t)process, 0) != 0 && errno == ESRCH)
            explore_remove_directories((pid_t)process);
    }
    closedir(open);
}

void explore_directory_remove(void)
{
    remove_directory(directory);
}

struct kvstore *explore_store_open(const struct kvstore_options *options)
{
    struct kv_error error = {.text = ""};
    struct kvstore *store = NULL;
    if (kvstore_open(directory, options, &store, &error) != KV_OK)
        explore_fail("the store cannot be opened: %s", error.text);
    return store;
}

void explore_store_close(struct kvstore *store)
{
    struct kv_error error = {.text = ""};
    if (kvstore_close(store, &error) != KV_OK)
        explore_fail("the store cannot be closed: %s", error.text);
}

/* Keys and values ------------------------------------------------------------------------------ */

void explore_values_are_large(bool large)
{
    values_are_large = large;
}

struct kv_slice explore_key(unsigned key)
{
    static const char *const names[EXPLORE_KEYS] = {"a", "b", "c"};
    return kv_slice_from_string(names[key]);
}

/* The number, and after it that number of its last digit, by which a torn value is known. */
static struct kv_slice value_of(int64_t number, char text[VALUE_MAX])
{
    int length = snprintf(text, VALUE_MAX, "%" PRId64, number);
    size_t padding = (size_t)(number % 7) * 20;
    if (values_are_large && number % 7 != 0)
        padding += EXPLORE_LARGE_BYTES;
    memset(text + length, 'a' + (int)(number % 26), padding);
    return kv_slice(text, (size_t)length + padding);
}

int64_t explore_value_number(struct kv_slice value)
{
    char text[VALUE_MAX], head[32] = "";
    size_t size = value.size < sizeof head - 1 ? value.size : sizeof head - 1;
    memcpy(head, value.data, size);
    int64_t number = strtoll(head, NULL, 10);
    struct kv_slice whole = value_of(number, text);
    if (number <= 0 || whole.size != value.size || memcmp(whole.data, value.data, whole.size) != 0)
        explore_fail("a value of %zu bytes that was never written: %.20s", value.size, head);
    return number;
}

/* History -------------------------------------------------------------------------------------- */

void explore_history_begin(void)
{
    memset(history.counts, 0, sizeof history.counts);
    history.next_number = 1;
}

static struct history_operation *note(unsigned key, struct history_operation operation)
{
    if (history.counts[key] == HISTORY_MAX_OPERATIONS)
        explore_fail("a history has too many operations");
    struct history_operation *noted = &history.operations[key][history.counts[key]++];
    *noted = operation;
    return noted;
}

void explore_note_read(unsigned key, int64_t found, uint64_t began_ns)
{
    note(key, (struct history_operation){.kind = HISTORY_GET,
                                         .succeeded = true,
                                         .output = found,
                                         .start_ns = began_ns,
                                         .end_ns = explore_clock_ns()});
}

void explore_get(struct kvstore *store, unsigned key)
{
    char bytes[VALUE_MAX];
    struct kvstore_entry entry;
    uint64_t began_ns = explore_clock_ns();
    enum kv_status status = kvstore_get(store, explore_key(key), bytes, sizeof bytes, &entry);
    if (status != KV_OK && status != KV_NOT_FOUND)
        explore_fail("a get gives status %d", status);
    int64_t found =
        status == KV_OK ? explore_value_number(kv_slice(bytes, entry.value_bytes)) : HISTORY_ABSENT;
    explore_note_read(key, found, began_ns);
}

static void put(struct kvstore *store, unsigned key, bool if_absent,
                struct kvstore_written *written)
{
    char text[VALUE_MAX];
    struct kvstore_put_options options = {.condition =
                                              if_absent ? KVSTORE_IF_ABSENT : KVSTORE_ALWAYS};
    int64_t number = history.next_number++;
    struct history_operation *noted = note(
        key, (struct history_operation){.kind = if_absent ? HISTORY_PUT_IF_ABSENT : HISTORY_PUT,
                                        .input = number,
                                        .start_ns = explore_clock_ns(),
                                        .end_ns = HISTORY_PENDING});
    enum kv_status status =
        kvstore_put(store, explore_key(key), value_of(number, text), &options, written);
    if (status != KV_OK && (status != KV_EXISTS || !if_absent))
        explore_fail("a put gives status %d", status);
    noted->succeeded = status == KV_OK;
    noted->end_ns = explore_clock_ns();
}

void explore_put(struct kvstore *store, unsigned key)
{
    put(store, key, false, NULL);
}

static void delete_key(struct kvstore *store, unsigned key, struct kvstore_written *written)
{
    struct history_operation *noted =
        note(key, (struct history_operation){.kind = HISTORY_DELETE,
                                             .start_ns = explore_clock_ns(),
                                             .end_ns = HISTORY_PENDING});
    enum kv_status status = kvstore_delete(store, explore_key(key), 0, written);
    if (status != KV_OK && status != KV_NOT_FOUND)
        explore_fail("a delete gives status %d", status);
    noted->succeeded = status == KV_OK;
    noted->end_ns = explore_clock_ns();
}

static void operate(struct kvstore *store, struct kvstore_written *written)
{
    unsigned key = explore_random(EXPLORE_KEYS);
    switch (explore_random(6)) {
    case 0:
    case 1:
        put(store, key, false, written);
        break;
    case 2:
        put(store, key, true, written);
        break;
    case 3:
        delete_key(store, key, written);
        break;
    default:
        explore_get(store, key);
    }
}

void explore_operation(struct kvstore *store)
{
    operate(store, NULL);
}

void explore_durable_operation(struct kvstore *store)
{
    struct kvstore_written written = {.ticket = {.position = 0}};
    operate(store, &written);
    if (written.ticket.position != 0 && kvstore_wait_durable(store, written.ticket) != KV_OK)
        explore_fail("a write is not on disk");
}

void explore_history_judge(void)
{
    for (unsigned key = 0; key < EXPLORE_KEYS; key++)
        if (history_check(history.operations[key], history.counts[key], HISTORY_ABSENT) ==
            HISTORY_VIOLATION) {
            for (unsigned i = 0; i < history.counts[key]; i++) {
                const struct history_operation *o = &history.operations[key][i];
                fprintf(stderr,
                        "  key %u: kind %d in %" PRId64 " out %" PRId64 " %s from %" PRIu64
                        " to %" PRIu64 "\n",
                        key, o->kind, o->input, o->output, o->succeeded ? "done" : "not done",
                        o->start_ns, o->end_ns);
            }
            explore_fail("no order of the operations on key %u explains their answers", key);
        }
}

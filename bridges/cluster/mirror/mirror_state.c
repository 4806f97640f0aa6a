#include "bridges/cluster/mirror/mirror_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/numbers/random.h"
#include "common/report/error.h"
#include "common/time/clock.h"

#define NEW_STATE_FILE MIRROR_STATE_FILE ".new"
#define FIRST_LINE     "mqkv mirror 1\n"
#define HEX_DIGITS     "0123456789abcdef"

static void make_up(char name[MIRROR_NAME_DIGITS + 1])
{
    snprintf(name, MIRROR_NAME_DIGITS + 1, "%016" PRIx64 "%016" PRIx64, random_secret(),
             random_secret());
}

void mirror_state_begin_copy(struct mirror_state *state)
{
    make_up(state->copy);
    state->complete = false;
    mirror_state_end_page(state);
}

void mirror_state_end_page(struct mirror_state *state)
{
    memset(state->page, 0, state->files * sizeof *state->page);
}

static void begin_anew(const char *bucket, struct mirror_state *state)
{
    memset(state->places, 0, state->files * sizeof state->places[0]);
    mirror_state_end_page(state);
    state->complete = false;
    state->same_ms = 0;
    make_up(state->name);
    make_up(state->copy);
    snprintf(state->bucket, sizeof state->bucket, "%s", bucket);
}

/* How often to look at a file while another thread keeps its lock. */
#define KEPT_LOOK_MS 10u

uint64_t mirror_version_now(struct kvstore *store, uint32_t file)
{
    for (;;) {
        struct kvstore_file_statistics statistics;
        kvstore_file_statistics(store, file, &statistics);
        if (statistics.stale_ms == 0)
            return statistics.max_version;
        clock_sleep_ms(KEPT_LOOK_MS);
    }
}

void mirror_state_free(struct mirror_state *state)
{
    free(state->places);
    free(state->page);
    *state = (struct mirror_state){0};
}

/* Reading -------------------------------------------------------------------------------------- */

static bool read_head(FILE *stream, struct mirror_state *state)
{
    char first[sizeof FIRST_LINE + 1], phase[16];
    uint32_t files = 0;
    if (!fgets(first, sizeof first, stream) || strcmp(first, FIRST_LINE) != 0)
        return false;
    if (fscanf(stream,
               "store %32[" HEX_DIGITS "] bucket %64[A-Za-z0-9_-] files %" SCNu32
               " copy %32[" HEX_DIGITS "] %15[a-z] same %" SCNu64,
               state->name, state->bucket, &files, state->copy, phase, &state->same_ms) != 6)
        return false;
    state->complete = strcmp(phase, "complete") == 0;
    return strlen(state->name) == MIRROR_NAME_DIGITS && strlen(state->copy) == MIRROR_NAME_DIGITS &&
           files == state->files && (state->complete || strcmp(phase, "begun") == 0);
}

static bool read_places(FILE *stream, struct mirror_state *state)
{
    for (uint32_t i = 0; i < state->files; i++) {
        struct mirror_place *place = &state->places[i];
        struct kvstore_position *position = &place->position;
        uint32_t number;
        if (fscanf(stream,
                   " place %" SCNu32 " %" SCNx64 " %" SCNx64 " %" SCNx64 " version %" SCNu64,
                   &number, &position->log, &position->version, &position->place,
                   &place->version) != 5 ||
            number != i)
            return false;
    }
    return true;
}

/* Older versions write no page. */
static bool read_begun_page(FILE *stream, struct mirror_state *state)
{
    uint32_t number;
    uint64_t changes;
    while (fscanf(stream, " page %" SCNu32 " %" SCNu64, &number, &changes) == 2) {
        if (number >= state->files)
            return false;
        state->page[number] = changes;
    }
    return true;
}

static enum kv_status read_state_file(int fd, const char *dir, struct mirror_state *state,
                                      struct kv_error *error)
{
    FILE *stream = fdopen(fd, "r");
    if (!stream) {
        close(fd);
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    }
    bool sound =
        read_head(stream, state) && read_places(stream, state) && read_begun_page(stream, state);
    fclose(stream);
    if (sound)
        return KV_OK;
    return kv_error_set(error, KV_CORRUPT,
                        "%s/" MIRROR_STATE_FILE " makes no sense, so nobody knows how far the copy "
                        "is: remove the file, and name a new bucket",
                        dir);
}

static int open_state(const char *dir, const char *name, int flags)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
}

enum kv_status mirror_state_load(const char *dir, const char *bucket, uint32_t files,
                                 struct mirror_state *state, struct kv_error *error)
{
    *state = (struct mirror_state){.files = files};
    state->places = calloc(files, sizeof state->places[0]);
    state->page = calloc(files, sizeof *state->page);
    if (!state->places || !state->page) {
        mirror_state_free(state);
        return kv_error_set(error, KV_NO_MEMORY, "out of memory");
    }
    int fd = open_state(dir, MIRROR_STATE_FILE, O_RDONLY);
    bool is_there = fd >= 0;
    enum kv_status status = KV_OK;
    if (is_there)
        status = read_state_file(fd, dir, state, error);
    else if (errno != ENOENT)
        status = kv_error_set_errno(error, "%s/" MIRROR_STATE_FILE, dir);
    if (status != KV_OK)
        mirror_state_free(state);
    else if (!is_there || strcmp(state->bucket, bucket) != 0)
        begin_anew(bucket, state);
    return status;
}

/* Writing -------------------------------------------------------------------------------------- */

static bool write_state_file(FILE *stream, const struct mirror_state *state)
{
    fprintf(stream,
            FIRST_LINE "store %s\nbucket %s\nfiles %" PRIu32 "\ncopy %s %s same %" PRIu64 "\n",
            state->name, state->bucket, state->files, state->copy,
            state->complete ? "complete" : "begun", state->same_ms);
    for (uint32_t i = 0; i < state->files; i++) {
        const struct mirror_place *place = &state->places[i];
        fprintf(
            stream, "place %" PRIu32 " %" PRIx64 " %" PRIx64 " %" PRIx64 " version %" PRIu64 "\n",
            i, place->position.log, place->position.version, place->position.place, place->version);
    }
    for (uint32_t i = 0; i < state->files; i++)
        if (state->page[i] > 0)
            fprintf(stream, "page %" PRIu32 " %" PRIu64 "\n", i, state->page[i]);
    return fflush(stream) == 0 && !ferror(stream);
}

/* Gives the new file, once it is on disk, the name of the old one; then puts the name on disk. */
static bool replace(const char *dir, FILE *stream)
{
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return false;
    bool done = fsync(fileno(stream)) == 0 &&
                renameat(dir_fd, NEW_STATE_FILE, dir_fd, MIRROR_STATE_FILE) == 0 &&
                fsync(dir_fd) == 0;
    int problem = errno;
    close(dir_fd);
    errno = problem;
    return done;
}

enum kv_status mirror_state_save(const char *dir, const struct mirror_state *state,
                                 struct kv_error *error)
{
    int fd = open_state(dir, NEW_STATE_FILE, O_WRONLY | O_CREAT | O_TRUNC);
    FILE *stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!stream) {
        enum kv_status status = kv_error_set_errno(error, "%s/" NEW_STATE_FILE, dir);
        if (fd >= 0)
            close(fd);
        return status;
    }
    enum kv_status status = KV_OK;
    if (!write_state_file(stream, state) || !replace(dir, stream))
        status = kv_error_set_errno(error, "%s/" MIRROR_STATE_FILE, dir);
    fclose(stream);
    return status;
}

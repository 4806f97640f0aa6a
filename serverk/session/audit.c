#include "serverk/session/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/assert/assert.h"
#include "common/report/error.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"
#include "common/report/written_file.h"
#include "common/text/escape.h"
#include "common/time/clock.h"

#define PROGRAM_BYTES 256u

/* "2026-11-20T11:12:13.456Z" */
#define TIME_BYTES 32u

static const char *format_now(char text[TIME_BYTES])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    size_t size = strftime(text, TIME_BYTES, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
    snprintf(text + size, TIME_BYTES - size, ".%03ldZ", now.tv_nsec / 1000000);
    return text;
}

static atomic_int audit_file = -1; /* the number stays when it is opened anew */

/* Lines are written one after the other. A disk that takes a part of one gets the rest before the
 * next, so that no line is torn. */
static struct {
    pthread_mutex_t lock; /* what follows, and writing; a failing disk is logged with it held */
    char *torn;           /* a line of which a part was written, on the heap; NULL: none */
    size_t torn_at, torn_size; /* how much of it was written; all of it */
    uint64_t unwritten;        /* lines since the last that was written */
} output = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_ullong lost_lines; /* since the start */

/* Writes the text. Returns how many of its bytes the file took. */
static size_t write_some(const char *text, size_t size)
{
    ssize_t written;
    do
        written = write(atomic_load(&audit_file), text, size);
    while (written < 0 && errno == EINTR);
    return written < 0 ? 0 : (size_t)written;
}

/* Writes the rest of a torn line. False: the file does not take all of it. Holds: output.lock. */
static bool finish_torn(void)
{
    if (!output.torn)
        return true;
    output.torn_at += write_some(output.torn + output.torn_at, output.torn_size - output.torn_at);
    KV_ASSERT(output.torn_at <= output.torn_size);
    if (output.torn_at < output.torn_size)
        return false;
    free(output.torn);
    output.torn = NULL;
    return true;
}

/* Writes a line, which is freed. False: the file took none of it. What it took a part of counts as
 * written: the rest follows. Holds: output.lock. */
static bool write_line(char *text, size_t size)
{
    KV_ASSERT(mutex_is_held(&output.lock));
    KV_ASSERT(!output.torn); /* its rest comes first, or lines are torn */
    size_t written = write_some(text, size);
    if (written > 0 && written < size) {
        output.torn = text;
        output.torn_at = written;
        output.torn_size = size;
    } else {
        free(text);
    }
    return written > 0;
}

/* Tells how many lines are missing, if some are. False: the file still takes nothing. Holds:
 * output.lock. */
static bool write_loss(void)
{
    char *text, when[TIME_BYTES];
    if (output.unwritten == 0)
        return true;
    int size = asprintf(&text, "{\"time\":\"%s\",\"event\":\"lost\",\"records\":%" PRIu64 "}\n",
                        format_now(when), output.unwritten);
    if (size < 0 || !write_line(text, (size_t)size))
        return false;
    log_warn("the audit log (--audit) is written again: it lacks %" PRIu64 " records",
             output.unwritten);
    output.unwritten = 0;
    return true;
}

/* Counts a line that was lost, and tells of the first. Holds: output.lock. */
static void lose_line(void)
{
    if (output.unwritten++ == 0)
        log_error("the audit log (--audit) takes no record: %s; until it does, records are lost",
                  strerror(errno));
    atomic_fetch_add(&lost_lines, 1);
}

uint64_t audit_lost_records(void)
{
    return atomic_load(&lost_lines);
}

enum kv_status audit_open(const char *path, struct kv_error *error)
{
    int before = atomic_load(&audit_file);
    if (!path && before < 0)
        return KV_OK;
    /* others may be about to write: it stays open */
    const struct written_file file = {
        .path = path ? path : "/dev/null", .noun = "audit log", .mode = 0640};
    int fd;
    enum kv_status status = written_file_open(&file, O_WRONLY | O_APPEND, &fd, error);
    if (status != KV_OK)
        return status;
    if (before < 0) {
        atomic_store(&audit_file, fd);
        return KV_OK;
    }
    pthread_mutex_lock(&output.lock);
    if (!finish_torn()) { /* its beginning is in the old file */
        free(output.torn);
        output.torn = NULL;
        lose_line();
    }
    if (dup3(fd, before, O_CLOEXEC) != before)
        status = kv_error_set_errno(error, "cannot write the audit log %s", file.path);
    pthread_mutex_unlock(&output.lock);
    close(fd);
    return status;
}

/* The path of the process's program, where it may be read, else its name; "": it has gone, or
 * cannot be seen. */
static void find_program(pid_t pid, char program[PROGRAM_BYTES])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/exe", (long)pid);
    ssize_t size = readlink(path, program, PROGRAM_BYTES - 1);
    if (size <= 0) {
        snprintf(path, sizeof path, "/proc/%ld/comm", (long)pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        size = fd < 0 ? 0 : read(fd, program, PROGRAM_BYTES - 1);
        if (fd >= 0)
            close(fd);
    }
    program[size > 0 ? size : 0] = '\0';
    program[strcspn(program, "\n")] = '\0';
}

struct audit_line {
    FILE *stream;
    char *text;
    size_t size;
};

static void put(struct audit_line *line, const char *name, const char *text)
{
    fprintf(line->stream, ",\"%s\":", name);
    escape_print_json(line->stream, kv_slice_from_string(text));
}

static void put_who(struct audit_line *line, uid_t uid, pid_t pid)
{
    fprintf(line->stream, ",\"uid\":%lu,\"pid\":%ld", (unsigned long)uid, (long)pid);
}

/* False: there is no file, or no memory. */
static bool begin_audit_line(struct audit_line *line, const char *event)
{
    if (atomic_load_explicit(&audit_file, memory_order_relaxed) < 0)
        return false;
    *line = (struct audit_line){.text = NULL};
    line->stream = open_memstream(&line->text, &line->size);
    if (!line->stream)
        return false;
    char when[TIME_BYTES];
    fprintf(line->stream, "{\"time\":\"%s\",\"event\":\"%s\"", format_now(when), event);
    return true;
}

static void end_audit_line(struct audit_line *line)
{
    fputs("}\n", line->stream);
    if (fclose(line->stream) != 0)
        line->size = 0; /* no memory for all of it */
    pthread_mutex_lock(&output.lock);
    if (!finish_torn() || !write_loss() || output.torn) {
        free(line->text);
        lose_line();
    } else if (!write_line(line->text, line->size)) {
        lose_line();
    }
    pthread_mutex_unlock(&output.lock);
}

/* The pace of a user's records of sessions; guarded by pace_lock. */
struct session_pace {
    uint64_t due_ms; /* when all that were written would have come at the steady pace */
    uint64_t left_out;
};

/* Returns whether a session of the user may be recorded; *left_out: how many before it were not. */
static bool pace_allows(uid_t uid, uint64_t *left_out)
{
    static pthread_mutex_t pace_lock = PTHREAD_MUTEX_INITIALIZER;
    static struct session_pace paces[AUDIT_USERS];
    const uint64_t step_ms = 1000 / AUDIT_SESSIONS_PER_S;
    uint64_t now_ms = clock_monotonic_coarse_ms();
    struct session_pace *pace = &paces[uid % AUDIT_USERS];
    pthread_mutex_lock(&pace_lock);
    if (pace->due_ms < now_ms)
        pace->due_ms = now_ms;
    bool allowed = pace->due_ms <= now_ms + AUDIT_SESSIONS_BURST * step_ms;
    *left_out = pace->left_out;
    if (allowed)
        pace->due_ms += step_ms;
    pace->left_out = allowed ? 0 : pace->left_out + 1;
    pthread_mutex_unlock(&pace_lock);
    return allowed;
}

bool audit_opened(uint32_t session, uid_t uid, pid_t pid)
{
    struct audit_line line;
    char program[PROGRAM_BYTES];
    uint64_t left_out;
    if (atomic_load(&audit_file) < 0 || !pace_allows(uid, &left_out) ||
        !begin_audit_line(&line, "opened"))
        return false;
    find_program(pid, program);
    fprintf(line.stream, ",\"session\":%" PRIu32, session);
    put_who(&line, uid, pid);
    put(&line, "program", program);
    if (left_out > 0)
        fprintf(line.stream, ",\"left_out\":%" PRIu64, left_out);
    end_audit_line(&line);
    return true;
}

void audit_ended(uint32_t session, uid_t uid, pid_t pid, const char *reason)
{
    struct audit_line line;
    if (!begin_audit_line(&line, "ended"))
        return;
    fprintf(line.stream, ",\"session\":%" PRIu32, session);
    put_who(&line, uid, pid);
    put(&line, "reason", reason);
    end_audit_line(&line);
}

void audit_refused(uid_t uid, pid_t pid, const char *reason)
{
    static struct log_pace pace = LOG_PACE(1000 / AUDIT_REFUSALS_PER_S);
    char unsaid[LOG_PACE_TEXT_BYTES], program[PROGRAM_BYTES];
    struct audit_line line;
    if (atomic_load(&audit_file) < 0 || !log_pace_allows(&pace, unsaid) ||
        !begin_audit_line(&line, "refused"))
        return;
    find_program(pid, program);
    put_who(&line, uid, pid);
    put(&line, "program", program);
    put(&line, "reason", reason);
    if (unsaid[0])
        put(&line, "left_out", unsaid);
    end_audit_line(&line);
}

void audit_command(uint32_t session, uid_t uid, pid_t pid, const char *command,
                   const char *argument, enum kv_status status)
{
    struct audit_line line;
    if (!begin_audit_line(&line, "command"))
        return;
    fprintf(line.stream, ",\"session\":%" PRIu32, session);
    put_who(&line, uid, pid);
    put(&line, "command", command);
    put(&line, "argument", argument);
    put(&line, "status", kv_status_name(status));
    end_audit_line(&line);
}

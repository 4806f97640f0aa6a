#include "serverk/session/audit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/log_pace.h"
#include "common/text/escape.h"

#define PROGRAM_BYTES 256u

static atomic_int audit_file = -1; /* the number stays when it is opened anew */

enum kv_status audit_open(const char *path, struct kv_error *error)
{
    int before = atomic_load(&audit_file);
    if (!path && before < 0)
        return KV_OK;
    const char *name = path ? path : "/dev/null"; /* others may be about to write: it stays open */
    int fd = open(
        name, O_WRONLY | O_APPEND | (path ? O_CREAT : 0) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0640);
    if (fd < 0)
        return kv_error_set_errno(error, "%s: cannot open the audit log", name);
    if (before < 0) {
        atomic_store(&audit_file, fd);
        return KV_OK;
    }
    bool moved = dup3(fd, before, O_CLOEXEC) == before;
    enum kv_status status =
        moved ? KV_OK : kv_error_set_errno(error, "%s: cannot open the audit log", name);
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
static bool begin(struct audit_line *line, const char *event)
{
    if (atomic_load_explicit(&audit_file, memory_order_relaxed) < 0)
        return false;
    *line = (struct audit_line){.text = NULL};
    line->stream = open_memstream(&line->text, &line->size);
    if (!line->stream)
        return false;
    struct timespec now;
    struct tm utc;
    char when[32];
    clock_gettime(CLOCK_REALTIME, &now);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &utc));
    fprintf(line->stream, "{\"time\":\"%s.%03ldZ\",\"event\":\"%s\"", when, now.tv_nsec / 1000000,
            event);
    return true;
}

/* One write(2). A disk that takes nothing loses lines; the log of the daemon has the important
 * ones too. */
static void end(struct audit_line *line)
{
    fputs("}\n", line->stream);
    bool complete = fclose(line->stream) == 0;
    int fd = atomic_load(&audit_file);
    ssize_t written = complete && fd >= 0 ? write(fd, line->text, line->size) : 0;
    (void)written;
    free(line->text);
}

void audit_opened(uint32_t session, uid_t uid, pid_t pid)
{
    struct audit_line line;
    char program[PROGRAM_BYTES];
    if (!begin(&line, "opened"))
        return;
    find_program(pid, program);
    fprintf(line.stream, ",\"session\":%" PRIu32, session);
    put_who(&line, uid, pid);
    put(&line, "program", program);
    end(&line);
}

void audit_ended(uint32_t session, uid_t uid, pid_t pid, const char *reason)
{
    struct audit_line line;
    if (!begin(&line, "ended"))
        return;
    fprintf(line.stream, ",\"session\":%" PRIu32, session);
    put_who(&line, uid, pid);
    put(&line, "reason", reason);
    end(&line);
}

void audit_refused(uid_t uid, pid_t pid, const char *reason)
{
    static struct log_pace pace = LOG_PACE(1000 / AUDIT_REFUSALS_PER_S);
    char unsaid[LOG_PACE_TEXT_BYTES], program[PROGRAM_BYTES];
    struct audit_line line;
    if (atomic_load(&audit_file) < 0 || !log_pace_allows(&pace, unsaid) || !begin(&line, "refused"))
        return;
    find_program(pid, program);
    put_who(&line, uid, pid);
    put(&line, "program", program);
    put(&line, "reason", reason);
    if (unsaid[0])
        put(&line, "left_out", unsaid);
    end(&line);
}

void audit_command(uint32_t session, uid_t uid, pid_t pid, const char *command,
                   const char *argument, enum kv_status status)
{
    struct audit_line line;
    if (!begin(&line, "command"))
        return;
    fprintf(line.stream, ",\"session\":%" PRIu32, session);
    put_who(&line, uid, pid);
    put(&line, "command", command);
    put(&line, "argument", argument);
    put(&line, "status", kv_status_name(status));
    end(&line);
}

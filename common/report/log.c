#include "common/report/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/report/error.h"
#include "common/report/written_file.h"
#include "common/text/parse.h"
#include "common/time/clock.h"

#define LINE_BYTES  1024
#define STAMP_BYTES 64

/* How long stderr may take no line before lines are dropped. */
#define PATIENCE_MS 200

static const char CUT_MARK[] = "...";
static const char *const level_names[] = {"ERROR", "WARN", "INFO", "DEBUG"};
static atomic_int highest_level = LOG_LEVEL_INFO;
static atomic_int destination = STDERR_FILENO; /* the number stays when a file is opened anew */
static atomic_ulong dropped_lines;             /* since the last that was written */

void log_set_level(enum log_level level)
{
    atomic_store_explicit(&highest_level, (int)level, memory_order_relaxed);
}

enum kv_status log_open(const char *path, struct kv_error *error)
{
    const struct written_file file = {.path = path, .noun = "log file", .mode = 0640};
    int fd, before = atomic_load(&destination);
    enum kv_status status = written_file_open(&file, O_WRONLY | O_APPEND, &fd, error);
    if (status != KV_OK)
        return status;
    if (before == STDERR_FILENO) {
        atomic_store(&destination, fd);
        return KV_OK;
    }
    if (dup3(fd, before, O_CLOEXEC) != before)
        status = kv_error_set_errno(error, "cannot write the log file %s", path);
    close(fd);
    return status;
}

/* Days since 1970-01-01 as a date of the Gregorian calendar (Howard Hinnant, "chrono-compatible
 * low-level date algorithms", civil_from_days, for days >= 0). Not gmtime_r: that takes glibc's
 * time-zone lock, which a process forked from a thread pool may inherit locked. */
static void civil_date(uint64_t days, unsigned *year, unsigned *month, unsigned *day)
{
    uint64_t shifted = days + 719468; /* since 0000-03-01: the leap day ends the year */
    uint64_t era = shifted / 146097;  /* of 400 years */
    uint64_t day_of_era = shifted % 146097;
    uint64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    uint64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t month_from_march = (5 * day_of_year + 2) / 153;
    *day = (unsigned)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    *month = (unsigned)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    *year = (unsigned)(year_of_era + era * 400) + (*month <= 2);
}

static size_t put_stamp(char *line, enum log_level level)
{
    uint64_t now_ms = clock_realtime_ms();
    unsigned second = (unsigned)(now_ms / 1000 % 86400);
    unsigned year, month, day;
    civil_date(now_ms / 86400000, &year, &month, &day);
    int length = snprintf(line, STAMP_BYTES, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ %s ", year, month,
                          day, second / 3600, second / 60 % 60, second % 60,
                          (unsigned)(now_ms % 1000), level_names[level]);
    return length > 0 ? (size_t)length : 0;
}

/* A write of a line would not sleep: a pipe has room for a page, a terminal is not stopped
 * (Ctrl-S). No lock is held from here to the write, since a process that is forked meanwhile would
 * inherit it. */
static bool stderr_has_room(int patience_ms)
{
    struct pollfd output = {atomic_load_explicit(&destination, memory_order_relaxed), POLLOUT, 0};
    int ready;
    do
        ready = poll(&output, 1, patience_ms);
    while (ready < 0 && errno == EINTR);
    return ready != 0;
}

/* Nobody is left to be told when stderr itself fails. */
static void write_log_bytes(const char *line, size_t size)
{
    ssize_t written = write(atomic_load_explicit(&destination, memory_order_relaxed), line, size);
    (void)written;
}

static void tell_dropped(void)
{
    char line[STAMP_BYTES + 128], lines[32];
    unsigned long dropped = atomic_exchange(&dropped_lines, 0);
    if (dropped == 0)
        return;
    size_t stamp = put_stamp(line, LOG_LEVEL_WARN);
    int length = snprintf(line + stamp, sizeof line - stamp,
                          "%s dropped before this one: nobody read them\n",
                          format_count(dropped, "line", lines));
    write_log_bytes(line, stamp + (size_t)length);
}

static void __attribute__((format(printf, 2, 0)))
log_line(enum log_level level, const char *format, va_list arguments)
{
    if ((int)level > atomic_load_explicit(&highest_level, memory_order_relaxed))
        return;
    int saved_errno = errno;
    char line[LINE_BYTES];
    size_t stamp = put_stamp(line, level);
    size_t room = sizeof line - stamp;
    int length = vsnprintf(line + stamp, room, format, arguments);
    size_t used = length < 0 ? 0 : (size_t)length;
    if (used >= room) {
        used = room - 1;
        memcpy(line + stamp + used - strlen(CUT_MARK), CUT_MARK, strlen(CUT_MARK));
    }
    /* What others send may be part of a message: it must neither begin a line nor steer a terminal.
     * */
    char *text = line + stamp;
    for (size_t i = 0; i < used; i++) {
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            text[i] = '?';
    }
    line[stamp + used] = '\n';
    size_t size = stamp + used + 1;
    if (atomic_load(&dropped_lines) > 0 && stderr_has_room(0))
        tell_dropped();
    if (stderr_has_room(atomic_load(&dropped_lines) > 0 ? 0 : PATIENCE_MS))
        write_log_bytes(line, size);
    else
        atomic_fetch_add(&dropped_lines, 1);
    errno = saved_errno;
}

#define LOG_FUNCTION(name, level)           \
    void name(const char *format, ...)      \
    {                                       \
        va_list arguments;                  \
        va_start(arguments, format);        \
        log_line(level, format, arguments); \
        va_end(arguments);                  \
    }

LOG_FUNCTION(log_error, LOG_LEVEL_ERROR)
LOG_FUNCTION(log_warn, LOG_LEVEL_WARN)
LOG_FUNCTION(log_info, LOG_LEVEL_INFO)
LOG_FUNCTION(log_debug, LOG_LEVEL_DEBUG)

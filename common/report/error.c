#include "common/report/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/text/escape.h"

static const char CUT_MARK[] = "...";

/* Built beside error->text and copied, so that a caller may put the old text into the new one. */
struct sentence {
    char text[KV_ERROR_TEXT_BYTES];
    size_t used;
    bool cut;
};

static void __attribute__((format(printf, 2, 0)))
sentence_add(struct sentence *sentence, const char *format, va_list arguments)
{
    size_t room = sizeof sentence->text - sentence->used;
    int length = vsnprintf(sentence->text + sentence->used, room, format, arguments);
    if (length < 0)
        return;
    sentence->cut = (size_t)length >= room;
    sentence->used += sentence->cut ? room - 1 : (size_t)length;
}

static void __attribute__((format(printf, 2, 3)))
sentence_append(struct sentence *sentence, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    sentence_add(sentence, format, arguments);
    va_end(arguments);
}

/* What a sentence repeats may come from a file or another program, and must not command a
 * terminal. */
static void make_harmless(struct sentence *sentence)
{
    if (escape_is_printable(kv_slice(sentence->text, sentence->used), false))
        return;
    for (size_t i = 0; i < sentence->used; i++)
        if (sentence->text[i] < ' ' || sentence->text[i] > '~')
            sentence->text[i] = '?';
}

static void sentence_give(struct sentence *sentence, enum kv_status status, struct kv_error *error)
{
    if (sentence->cut)
        memcpy(sentence->text + sizeof sentence->text - sizeof CUT_MARK, CUT_MARK, sizeof CUT_MARK);
    make_harmless(sentence);
    error->status = status;
    memcpy(error->text, sentence->text, sentence->used + 1);
}

enum kv_status kv_error_set(struct kv_error *error, enum kv_status status, const char *format, ...)
{
    if (!error)
        return status;
    int saved_errno = errno;
    struct sentence sentence = {.used = 0};
    va_list arguments;
    va_start(arguments, format);
    sentence_add(&sentence, format, arguments);
    va_end(arguments);
    sentence_give(&sentence, status, error);
    errno = saved_errno;
    return status;
}

/* The caller's sentence, and what the error number says, with a hint. */
static void __attribute__((format(printf, 5, 0)))
give_with_reason(struct kv_error *error, enum kv_status status, int error_number, const char *hint,
                 const char *format, va_list arguments)
{
    struct sentence sentence = {.used = 0};
    char reason[128];
    sentence_add(&sentence, format, arguments);
    if (!sentence.cut)
        sentence_append(&sentence, ": %s%s", strerror_r(error_number, reason, sizeof reason), hint);
    sentence_give(&sentence, status, error);
}

static const char *hint_of(int error_number)
{
    if (error_number == EMFILE)
        return " (this process may have no more: raise ulimit -n)";
    return error_number == ENFILE ? " (on the machine: raise sysctl fs.file-max)" : "";
}

enum kv_status kv_error_set_no_thread(struct kv_error *error, int error_number, const char *format,
                                      ...)
{
    if (!error)
        return KV_LIMIT;
    va_list arguments;
    va_start(arguments, format);
    give_with_reason(error, KV_LIMIT, error_number,
                     " (raise what limits this user's processes and threads: ulimit -u, TasksMax "
                     "of a systemd unit; or memory: ulimit -v)",
                     format, arguments);
    va_end(arguments);
    return KV_LIMIT;
}

enum kv_status kv_error_set_errno(struct kv_error *error, const char *format, ...)
{
    int saved_errno = errno;
    enum kv_status status = kv_status_from_errno(saved_errno);
    if (!error)
        return status;
    va_list arguments;
    va_start(arguments, format);
    give_with_reason(error, status, saved_errno, hint_of(saved_errno), format, arguments);
    va_end(arguments);
    errno = saved_errno;
    return status;
}

enum kv_status kv_status_from_errno(int error_number)
{
    switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return KV_NO_SPACE;
    case ENOMEM:
        return KV_NO_MEMORY;
    case EACCES:
    case EPERM:
        return KV_DENIED;
    case EMFILE:
    case ENFILE:
        return KV_LIMIT;
    default:
        return KV_IO;
    }
}

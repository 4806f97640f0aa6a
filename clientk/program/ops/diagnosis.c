#include "clientk/program/ops/diagnosis.h"

#include <pwd.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>

#include "common/report/error.h"
#include "common/text/escape.h"

void finding(struct diagnosis *diagnosis, const char *mark, const char *format, ...)
{
    char sentence[KV_ERROR_TEXT_BYTES + 128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    fprintf(diagnosis->stream, "  %-5s ", mark);
    escape_print_text(diagnosis->stream, sentence);
    fputc('\n', diagnosis->stream);
    diagnosis->problem |= strcmp(mark, "BAD") == 0;
    diagnosis->no_server |= strcmp(mark, "NONE") == 0;
}

void heading(const struct diagnosis *diagnosis, const char *text)
{
    escape_print_text(diagnosis->stream, text);
    fputc('\n', diagnosis->stream);
}

const char *user_name(uid_t uid, char buffer[64])
{
    const struct passwd *entry = getpwuid(uid);
    snprintf(buffer, 64, "uid %u%s%.40s%s", (unsigned)uid, entry ? " (" : "",
             entry ? entry->pw_name : "", entry ? ")" : "");
    return buffer;
}

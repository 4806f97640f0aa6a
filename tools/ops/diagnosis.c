#include "tools/ops/diagnosis.h"

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
    if (mark[0] != '\0')
        snprintf(diagnosis->last, sizeof diagnosis->last, "%.500s", sentence);
    fprintf(diagnosis->stream, "  %-5s ", mark);
    escape_print_text(diagnosis->stream, sentence);
    fputc('\n', diagnosis->stream);
    diagnosis->problem |= strcmp(mark, "BAD") == 0;
    diagnosis->no_server |= strcmp(mark, "NONE") == 0;
}

void fix(struct diagnosis *diagnosis, const char *format, ...)
{
    char command[DIAGNOSIS_FIX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    for (unsigned i = 0; i < diagnosis->fix_count; i++)
        if (command[0] != '\0' && strcmp(diagnosis->fixes[i].command, command) == 0)
            return;
    if (diagnosis->fix_count == DIAGNOSIS_FIXES)
        return;
    struct fix *place = &diagnosis->fixes[diagnosis->fix_count++];
    memcpy(place->command, command, sizeof command);
    memcpy(place->reason, diagnosis->last, sizeof place->reason);
}

const char *shell_word(const char *text, char quoted[DIAGNOSIS_WORD_BYTES])
{
    size_t used = 0;
    quoted[used++] = '\'';
    for (; *text && used < DIAGNOSIS_WORD_BYTES - 6; text++) {
        if (*text == '\'') {
            memcpy(quoted + used, "'\\''", 4);
            used += 4;
        } else {
            quoted[used++] = *text;
        }
    }
    strcpy(quoted + (*text ? 1 : used), "'");
    return quoted;
}

void fix_by_hand(struct diagnosis *diagnosis)
{
    fix(diagnosis, "%s", "");
}

bool has_fixes(const struct diagnosis *diagnosis)
{
    for (unsigned i = 0; i < diagnosis->fix_count; i++)
        if (diagnosis->fixes[i].command[0] != '\0')
            return true;
    return false;
}

void print_fixes(const struct diagnosis *diagnosis, FILE *stream)
{
    for (unsigned i = 0; i < diagnosis->fix_count; i++) {
        fputs("# ", stream);
        escape_print_text(stream, diagnosis->fixes[i].reason);
        fputc('\n', stream);
        if (diagnosis->fixes[i].command[0] == '\0')
            continue;
        escape_print_text(stream, diagnosis->fixes[i].command);
        fputc('\n', stream);
    }
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

#include "serverk/daemon/metrics_writer.h"

#include <inttypes.h>

void metrics_begin(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP mqkv_%s %s\n# TYPE mqkv_%s %s\n", name, help, name, type);
}

void metrics_put(FILE *out, const char *name, const char *type, const char *help, uint64_t value)
{
    metrics_begin(out, name, type, help);
    fprintf(out, "mqkv_%s %" PRIu64 "\n", name, value);
}

void metrics_put_labelled(FILE *out, const char *name, const char *label, const char *of,
                          uint64_t value)
{
    fprintf(out, "mqkv_%s{%s=\"%s\"} %" PRIu64 "\n", name, label, of, value);
}

void metrics_put_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

#include "serverk/daemon/metrics_writer.h"

#include <inttypes.h>
#include <string.h>

void metrics_begin(FILE *out, const char *name, const char *help)
{
    size_t size = strlen(name);
    const char *end = size > 6 ? name + size - 6 : "";
    const char *type = strcmp(end, "_total") == 0 ? "counter" : "gauge";
    fprintf(out, "# HELP mqkv_%s %s\n# TYPE mqkv_%s %s\n", name, help, name, type);
}

void metrics_begin_histogram(FILE *out, const char *name, const char *help)
{
    fprintf(out, "# HELP mqkv_%s %s\n# TYPE mqkv_%s histogram\n", name, help, name);
}

void metrics_put(FILE *out, const char *name, uint64_t value)
{
    fprintf(out, "mqkv_%s %" PRIu64 "\n", name, value);
}

void metrics_put_new(FILE *out, const char *name, const char *help, uint64_t value)
{
    metrics_begin(out, name, help);
    metrics_put(out, name, value);
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

#include "kvstore/kvcheck/findings.h"

#include <inttypes.h>
#include <stdarg.h>

void report_finding(struct report *report, enum remedy remedy, const char *file, uint64_t offset,
                    const char *format, ...)
{
    fprintf(report->stream, "%s: %s/%s: offset %" PRIu64 ": ",
            remedy == REMEDY_NONE ? "note" : "damage", report->dir, file, offset);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(report->stream, format, arguments);
    va_end(arguments);

    switch (remedy) {
    case REMEDY_SALVAGE:
        fprintf(report->stream, "; to save what is intact: kvcheck --salvage OUT %s", report->dir);
        break;
    case REMEDY_RESTORE_FILE:
        fprintf(report->stream,
                "; bring the right file back, or save the others: kvcheck --salvage OUT %s",
                report->dir);
        break;
    case REMEDY_REMOVE_CHECKPOINT:
        fprintf(report->stream, "; remove that file: the store then reads its data file instead");
        break;
    case REMEDY_NONE:
        break;
    }
    fputc('\n', report->stream);
    report->damages += remedy != REMEDY_NONE;
}

#include "kvstore/kvcheck/findings.h"

#include <inttypes.h>
#include <stdarg.h>

void findings_add(struct findings *findings, enum remedy remedy, const char *file, uint64_t offset,
                  const char *format, ...)
{
    fprintf(findings->stream, "%s: %s/%s: offset %" PRIu64 ": ",
            remedy == REMEDY_NONE ? "note" : "damage", findings->dir, file, offset);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(findings->stream, format, arguments);
    va_end(arguments);

    switch (remedy) {
    case REMEDY_SALVAGE:
        fprintf(findings->stream, "; to save what is intact: kvcheck --salvage OUT %s",
                findings->dir);
        break;
    case REMEDY_RESTORE_FILE:
        fprintf(findings->stream,
                "; bring the right file back, or save the others: kvcheck --salvage OUT %s",
                findings->dir);
        break;
    case REMEDY_REMOVE_CHECKPOINT:
        fprintf(findings->stream, "; remove that file: the store then reads its data file instead");
        break;
    case REMEDY_RESTART:
        fprintf(findings->stream, "; start the daemon anew, which builds the order anew");
        break;
    case REMEDY_NONE:
        break;
    }
    fputc('\n', findings->stream);
    findings->damages += remedy != REMEDY_NONE;
}

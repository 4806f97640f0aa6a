/*
 * findings: prints what is wrong with a store, each finding with its file, its offset, what is
 * wrong and what to do, and counts them.
 */
#ifndef MQKV_KVSTORE_KVCHECK_FINDINGS_H
#define MQKV_KVSTORE_KVCHECK_FINDINGS_H

#include <stdint.h>
#include <stdio.h>

struct findings {
    FILE *stream;
    const char *dir;
    uint64_t damages;
};

/* What to do about a finding. */
enum remedy {
    REMEDY_SALVAGE,
    REMEDY_RESTORE_FILE,
    REMEDY_REMOVE_CHECKPOINT,
    REMEDY_RESTART, /* of the daemon: what is wrong is in its memory */
    REMEDY_NONE     /* a note, no damage: the engine mends it by itself */
};

void findings_add(struct findings *findings, enum remedy remedy, const char *file, uint64_t offset,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif

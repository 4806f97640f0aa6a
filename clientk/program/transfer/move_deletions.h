/*
 * move_deletions: what the source has no more is deleted at the target.
 */
#ifndef MQKV_CLIENTK_PROGRAM_TRANSFER_MOVE_DELETIONS_H
#define MQKV_CLIENTK_PROGRAM_TRANSFER_MOVE_DELETIONS_H

#include "clientk/program/transfer/migration.h"

/* After the source was scanned in migration->pass: looks at the target for keys that were not seen.
 * Those that the source does not have are deleted if this migration wrote them, or may remove what
 * it finds. Others are differences, in a pass that verifies. */
void move_deletions(struct migration *migration);

#endif

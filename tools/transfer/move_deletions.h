/*
 * move_deletions: deletes at the target what the source does not have any more.
 */
#ifndef MQKV_TOOLS_TRANSFER_MOVE_DELETIONS_H
#define MQKV_TOOLS_TRANSFER_MOVE_DELETIONS_H

#include "tools/transfer/migration.h"

/* Looks, after the source was scanned in migration->pass, for keys of the target that were not
 * seen. Those that the source does not have are deleted if this migration wrote them, or may remove
 * what it finds. Others are differences, in a pass that verifies. */
void move_deletions(struct migration *migration);

#endif

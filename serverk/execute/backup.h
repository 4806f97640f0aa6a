/*
 * backup: the operation BACKUP (docs/PROTOCOL.md): data files as they were at one moment, for the
 * daemon's own user and root. Others may read all entries too, but a data file has more than those:
 * what was deleted and replaced, until a compaction.
 */
#ifndef MQKV_SERVERK_EXECUTE_BACKUP_H
#define MQKV_SERVERK_EXECUTE_BACKUP_H

struct execution;

void execute_backup(struct execution *execution);

#endif

/*
 * audit: who came, who was refused, who left, and what the owner did: one JSON object a line,
 * appended to a file (--audit). Without a file the calls do nothing. Where the file takes nothing
 * (a full disk), the log says so once, and records are lost until it does; then a record
 * {"event":"lost","records":N} stands in their place. No line is torn.
 *
 * Threads: any; audit_open: one at a time.
 */
#ifndef MQKV_SERVERK_SESSION_AUDIT_H
#define MQKV_SERVERK_SESSION_AUDIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "mqkv/error.h"

/* From now on, lines go to the file `path`, which is made with mode 0640 where there is none; NULL:
 * nowhere. A second call opens the file anew. On failure, with a sentence, lines go where they
 * went. */
enum kv_status audit_open(const char *path, struct kv_error *error);

/* Returns the number of records that were lost since the start. */
uint64_t audit_lost_records(void);

/* Records that a session began: its process is proven. Anybody can begin and end any number, so of
 * each user (of those whose uids are equal modulo AUDIT_USERS together) there are
 * AUDIT_SESSIONS_PER_S records at most, and AUDIT_SESSIONS_BURST more after a quiet time; the next
 * tells how many were left out. False: there is no record of this session, and its end is to have
 * none. */
#define AUDIT_SESSIONS_PER_S 50u
#define AUDIT_SESSIONS_BURST 2000u
#define AUDIT_USERS          256u
bool audit_opened(uint32_t session, uid_t uid, pid_t pid);

void audit_ended(uint32_t session, uid_t uid, pid_t pid, const char *reason);

/* Records that a process got no session. pid: what the process says; uid: what the kernel says.
 * Anybody can cause any number of refusals, so there are AUDIT_REFUSALS_PER_S records at most, and
 * the next tells how many were left out. */
#define AUDIT_REFUSALS_PER_S 20u
void audit_refused(uid_t uid, pid_t pid, const char *reason);

/* Records that the owner of the session gave a command. */
void audit_command(uint32_t session, uid_t uid, pid_t pid, const char *command,
                   const char *argument, enum kv_status status);

#endif

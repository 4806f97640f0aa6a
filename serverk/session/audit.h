/*
 * audit: who came, who was refused, who left, and what the owner did: one JSON object a line,
 * appended to a file (--audit). Without a file the calls do nothing.
 *
 * Threads: any; audit_open: one at a time.
 */
#ifndef MQKV_SERVERK_SESSION_AUDIT_H
#define MQKV_SERVERK_SESSION_AUDIT_H

#include <sys/types.h>

#include "mqkv/error.h"

/* From now on lines go to the file, which is made with mode 0640 where there is none; NULL:
 * nowhere. Called again it opens the file anew. On failure, with a sentence, they go where they
 * went. */
enum kv_status audit_open(const char *path, struct kv_error *error);

/* A session began: the process is proven. */
void audit_opened(uint32_t session, uid_t uid, pid_t pid);

void audit_ended(uint32_t session, uid_t uid, pid_t pid, const char *reason);

/* Somebody got no session. pid: as he says; uid: as the kernel does. Anybody can cause as many as
 * he likes, so there are AUDIT_REFUSALS_PER_S at most, and the next tells how many were left
 * out. */
#define AUDIT_REFUSALS_PER_S 20u
void audit_refused(uid_t uid, pid_t pid, const char *reason);

/* The owner of the session gave a command. */
void audit_command(uint32_t session, uid_t uid, pid_t pid, const char *command,
                   const char *argument, enum kv_status status);

#endif

/*
 * known_scripts: the few Lua scripts that kresp understands without Lua: those by which client
 * libraries release and prolong locks, and by which django-redis counts. A script is known by its
 * text, whatever its blanks and quotes, or by its SHA-1. Threads: any.
 */
#ifndef MQKV_KRESP_COMMANDS_KNOWN_SCRIPTS_H
#define MQKV_KRESP_COMMANDS_KNOWN_SCRIPTS_H

#include <stdbool.h>

#include "bridges/kresp/protocol/sha1.h"
#include "mqkv/slice.h"

/* Each script has one key. The scripts of locks compare its value with the first argument: if it
 * differs, or the key is absent, they reply 0 and do nothing. */
enum known_script {
    SCRIPT_UNKNOWN,
    SCRIPT_RELEASE, /* deletes the key; replies 1 */

    /* Adds the second argument (ms) to the time that is left, or makes it that time if the third is
     * not "0"; replies 1, or 0 if the key has no expiry. */
    SCRIPT_EXTEND,

    SCRIPT_EXPIRE_MS,      /* makes the second argument the time that is left; replies 1 */
    SCRIPT_EXPIRE_SECONDS, /* the same, in seconds */

    SCRIPT_ADD,        /* adds the first argument to the key's number; replies the sum */
    SCRIPT_ADD_PRESENT /* the same; replies null if the key is absent */
};

/* Returns which script the text is, and remembers its SHA-1, which it writes to `hex`. */
enum known_script known_script_load(struct kv_slice text, char hex[SHA1_HEX_BYTES]);

/* Returns the script with this SHA-1, if it is always known or was loaded. Letters in any case. */
enum known_script known_script_find(struct kv_slice hex);

/* Forgets what was loaded. */
void known_script_flush(void);

#endif

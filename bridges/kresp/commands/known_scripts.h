/*
 * known_scripts: the few Lua scripts that are understood without Lua: those by which client
 * libraries release and prolong locks, and by which django-redis counts. A script is known by its
 * text, blanks and the kind of quotes left aside, or by its SHA-1. Threads: any.
 */
#ifndef MQKV_KRESP_COMMANDS_KNOWN_SCRIPTS_H
#define MQKV_KRESP_COMMANDS_KNOWN_SCRIPTS_H

#include <stdbool.h>

#include "bridges/kresp/protocol/sha1.h"
#include "mqkv/slice.h"

/* All have one key. Those of locks compare its value with the first argument: if it differs, or the
 * key is absent, they give 0 and do nothing. */
enum known_script {
    SCRIPT_UNKNOWN,
    SCRIPT_RELEASE, /* deletes the key: 1 */

    /* Adds the second argument (ms) to what is left, or, if the third is not "0", puts it in its
     * place: 1; 0 if the key has no expiry. */
    SCRIPT_EXTEND,

    SCRIPT_EXPIRE_MS,      /* the second argument is the time that is left: 1 */
    SCRIPT_EXPIRE_SECONDS, /* the same in seconds */

    SCRIPT_ADD,        /* adds the first argument to the key's number: the sum */
    SCRIPT_ADD_PRESENT /* the same; null if the key is absent */
};

/* Finds out what the script is, and remembers its SHA-1, which is written to hex. */
enum known_script known_script_load(struct kv_slice text, char hex[SHA1_HEX_BYTES]);

/* By the SHA-1 of a script that is always known, or was loaded. Letters in any case. */
enum known_script known_script_find(struct kv_slice hex);

/* Forgets what was loaded. */
void known_script_flush(void);

#endif

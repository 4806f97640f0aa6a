/*
 * script_library: the libraries of functions that clients have loaded (FUNCTION LOAD), for all
 * threads: names, texts, and what each function is. They last as long as kresp does.
 *
 * Threads: any, but for a library that is not installed yet.
 */
#ifndef MQKV_KRESP_SCRIPT_SCRIPT_LIBRARY_H
#define MQKV_KRESP_SCRIPT_SCRIPT_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mqkv/slice.h"

#define LIBRARIES_MAX       256u
#define LIBRARIES_MAX_BYTES ((size_t)8 << 20)
#define LIBRARY_NAME_BYTES  64u /* of a library, or of a function, with a NUL */

enum function_flag {
    FUNCTION_NO_WRITES = 1 << 0,
    FUNCTION_ALLOW_OOM = 1 << 1,
    FUNCTION_ALLOW_STALE = 1 << 2,
    FUNCTION_NO_CLUSTER = 1 << 3,
    FUNCTION_CROSS_SLOT = 1 << 4
};

struct library_function {
    struct library_function *next;
    char name[LIBRARY_NAME_BYTES];
    unsigned flags;
    bool is_described;
    char description[256];
};

struct script_library {
    struct script_library *next;
    _Atomic unsigned references;
    char name[LIBRARY_NAME_BYTES];
    struct library_function *functions;
    size_t function_bytes, size;
    char text[]; /* with the shebang */
};

/* Returns true if this may be the name of a library or a function. */
bool script_library_is_name(const char *name, size_t size);

/* Returns the flag of this name ("no-writes"), or 0. */
unsigned function_flag_of(const char *name);

/* Returns the name of the flag. */
const char *function_flag_name(enum function_flag flag);

/* Makes a library, which nobody else sees; NULL: no memory. */
struct script_library *script_library_new(const char *name, struct kv_slice text);
struct script_library *script_library_hold(struct script_library *library);
void script_library_release(struct script_library *library); /* NULL is harmless */

/* Releases a list of libraries that were removed, each with the next one. */
void script_library_release_all(struct script_library *removed);

/* Adds a function to a new library. Returns an error ("ERR ..."), or NULL. */
const char *script_library_add(struct script_library *library,
                               const struct library_function *function);

enum install_outcome {
    INSTALLED,
    INSTALL_NAME_TAKEN,
    INSTALL_FUNCTION_TAKEN, /* by another library: *taken is its name */
    INSTALL_FULL
};

/* Makes the library the one of its name, and the caller's reference that of all. replace: one that
 * there is goes, and is *removed, for the caller to release; else that is NULL. */
enum install_outcome script_library_install(struct script_library *library, bool replace,
                                            char taken[LIBRARY_NAME_BYTES],
                                            struct script_library **removed);

/* Remove the library, or all. Return what was removed, for the caller to release; NULL: nothing. */
struct script_library *script_library_delete(struct kv_slice name);
struct script_library *script_library_flush(void);

/* Takes back an installation, or a removal (either may be NULL), as far as others have not changed
 * the libraries of these names, or have the names of their functions, since. Takes over the
 * references of `removed`. */
void script_library_restore(const struct script_library *installed, struct script_library *removed);

/* Returns the library that has the function, which the caller releases; NULL: none has. */
struct script_library *script_library_of(struct kv_slice function);

/* Calls `visit` for each library, under the lock of all. */
void script_library_each(void (*visit)(void *context, const struct script_library *library),
                         void *context);

/* Returns a number that is another one after each change. */
uint64_t script_library_generation(void);

#endif

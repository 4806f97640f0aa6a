/*
 * script_vm: a Lua interpreter of one thread, in which its scripts run one after the other: with
 * an end to memory, and an end to time. While a script gives way to others, these have another one.
 *
 * Lua leaves a function by longjmp if something fails: what such a function owns must be Lua's.
 * Threads: a VM belongs to one thread.
 */
#ifndef MQKV_KRESP_SCRIPT_SCRIPT_VM_H
#define MQKV_KRESP_SCRIPT_SCRIPT_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lua.h>

#include "bridges/kresp/session/redis_job.h"
#include "bridges/kresp/session/transaction_run.h"

/* The memory that a VM may have, and what libraries and compiled scripts may keep of it when a
 * script has ended: else all of it is forgotten. CPU time and clock are those of a transaction. */
#define SCRIPT_MEMORY_BYTES ((size_t)64 << 20)
#define SCRIPT_KEPT_BYTES   ((size_t)16 << 20)

/* What scripts find in the registry under these names. */
#define SCRIPT_COMPILED  "kresp.compiled"  /* compiled scripts by SHA-1 */
#define SCRIPT_GLOBALS   "kresp.globals"   /* what scripts see as _G */
#define SCRIPT_VARIABLES "kresp.variables" /* the table behind it */

/* What a script may do. */
struct script_rights {
    bool no_writes; /* read-only: EVAL_RO, or a flag of the script */
};

struct script_library;

struct script_vm {
    lua_State *lua;
    size_t bytes, large_bytes; /* in all, and in large blocks */
    bool must_end;             /* the script may not go on */
    bool is_spoiled;           /* by a script that took too much: the next one needs another VM */
    struct redis_job *job;     /* whose script runs; NULL: none runs */
    struct script_rights rights;
    const struct kv_slice *keys; /* that the script names; borrowed */
    size_t key_count;
    int protocol;              /* of what redis.call returns: 2 or 3 */
    uint64_t kills;            /* the user's kills when the script began */
    uint64_t seen_ms;          /* the clock at the last look */
    struct script_start start; /* without a transaction; 0: not asked for yet */
    bool is_seeded;
    unsigned short random[3];
    unsigned cpu_ms, clock_ms;      /* that the script may take */
    size_t compiled;                /* entries of SCRIPT_COMPILED */
    uint64_t cache_flush;           /* of the cache, when they were compiled */
    bool registers;                 /* a library is loaded, and registers its functions */
    struct script_library *library; /* that is new, and notes its functions; NULL: it is known */
    uint64_t libraries;             /* the generation of the libraries that are loaded */
};

/* Of its memory a block of old_size bytes (0: none) has `size` now (0: none any more). */
void script_vm_note_block(struct script_vm *vm, size_t old_size, size_t size);

/* Begins a script of the job. */
void script_vm_begin(struct script_vm *vm, struct redis_job *job);

/* Ends it. False: the VM keeps more than it may, or is spoiled: the next script needs another. */
bool script_vm_finish(struct script_vm *vm);

/* Calls the function on the stack's top with the argument, which may be NULL; errors are caught.
 * Returns 0, or Lua's status: then the error is on the top. */
int script_vm_call(struct script_vm *vm, lua_CFunction function, void *argument);

/* Compiles the text, as luaL_loadbuffer does; that ends, too, if the script has to. */
int script_vm_load(lua_State *lua, struct kv_slice text, const char *name);

/* Returns the VM of a state. */
struct script_vm *script_vm_at(lua_State *lua);

/* Returns the state of the script's random numbers. */
unsigned short *script_vm_random(lua_State *lua);

/* For functions that take time: raises an error if the script has to end. */
void script_vm_check(lua_State *lua);

/* Makes the script end, whatever it catches, since its transaction does not go on. Raises an
 * error. */
int script_vm_end(lua_State *lua);

#endif

#include "bridges/kresp/script/script_vm.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "bridges/kresp/session/redis_session.h"

/* Instructions between two looks at the clock. One may take time by the size of a string or table,
 * as a comparison of strings does: 15 ms for each MiB. So the more there is in large blocks of
 * memory, the more often the clock is looked at, in the end before each instruction. */
#define INSTRUCTIONS       200
#define LARGE_BLOCK_BYTES  ((size_t)64 << 10)
#define BYTES_BETWEEN_LOOK ((size_t)4 << 20)

#define PIECE_BYTES ((size_t)16 << 10) /* of a text that is compiled, between two looks */

struct script_vm *script_vm_at(lua_State *lua)
{
    void *context;
    lua_getallocf(lua, &context);
    return context;
}

unsigned short *script_vm_random(lua_State *lua)
{
    struct script_vm *vm = script_vm_at(lua);
    if (!vm->is_seeded) {
        uint64_t seed =
            vm->job && vm->job->run ? redis_transaction_seed(vm->job->run) : clock_monotonic_ns();
        memcpy(vm->random, &seed, sizeof vm->random);
        vm->is_seeded = true;
    }
    return vm->random;
}

static void end_by_hook(lua_State *lua, lua_Debug *record)
{
    (void)record;
    luaL_error(lua, "the script has to end");
}

int script_vm_end(lua_State *lua)
{
    struct script_vm *vm = script_vm_at(lua);
    vm->must_end = true;
    lua_sethook(vm->lua, end_by_hook, LUA_MASKCOUNT, 1);
    return luaL_error(lua, "the script has to end");
}

static struct script_start script_start_of(struct script_vm *vm)
{
    if (vm->job->run)
        return redis_transaction_start(vm->job->run);
    if (vm->start.clock_ms == 0)
        vm->start = script_start_now(vm->job->memory);
    return vm->start;
}

/* Returns why the script may not go on, or NULL. */
static const char *reason_to_end(struct script_vm *vm, uint64_t now_ms)
{
    struct script_start start = script_start_of(vm);
    if (atomic_load(&vm->job->session->user->script_kills) != vm->kills)
        return "ERR Error running script: Script killed by user with SCRIPT KILL";
    if (clock_thread_ns() - start.cpu_ns > (uint64_t)vm->cpu_ms * 1000000)
        return "BUSY kresp: the script takes more CPU time than it may";
    if (now_ms > start.clock_ms + vm->clock_ms)
        return "BUSY kresp: the script takes longer than it may";
    return redis_transaction_give_way(vm->job->memory);
}

void script_vm_check(lua_State *lua)
{
    struct script_vm *vm = script_vm_at(lua);
    if (!vm->must_end && vm->job) {
        uint64_t now_ms = script_clock_ms(vm->job->memory);
        if (now_ms == vm->seen_ms)
            return;
        vm->seen_ms = now_ms;
        const char *reason = reason_to_end(vm, now_ms);
        if (!reason)
            return;
        vm->is_spoiled = true;
        if (vm->job->run)
            redis_transaction_abandon(vm->job->run, reason);
        script_vm_end(lua);
    }
    if (vm->must_end)
        luaL_error(lua, "the script has to end");
}

static void check_by_hook(lua_State *lua, lua_Debug *record)
{
    (void)record;
    script_vm_check(lua);
}

static void look_by_size(struct script_vm *vm)
{
    size_t instructions = INSTRUCTIONS;
    if (vm->large_bytes > BYTES_BETWEEN_LOOK / INSTRUCTIONS)
        instructions = BYTES_BETWEEN_LOOK / vm->large_bytes;
    lua_sethook(vm->lua, check_by_hook, LUA_MASKCOUNT, instructions > 0 ? (int)instructions : 1);
}

void script_vm_note_block(struct script_vm *vm, size_t old_size, size_t size)
{
    size_t was = vm->large_bytes;
    vm->bytes += size - old_size;
    vm->large_bytes +=
        (size >= LARGE_BLOCK_BYTES ? size : 0) - (old_size >= LARGE_BLOCK_BYTES ? old_size : 0);
    if (vm->large_bytes != was && vm->job && !vm->must_end)
        look_by_size(vm);
}

void script_vm_begin(struct script_vm *vm, struct redis_job *job)
{
    vm->job = job;
    vm->must_end = false;
    vm->rights = (struct script_rights){0};
    vm->keys = NULL;
    vm->key_count = 0;
    vm->protocol = 2;
    vm->start = (struct script_start){.clock_ms = 0};
    vm->seen_ms = 0;
    vm->kills = atomic_load(&job->session->user->script_kills);
    vm->is_seeded = false;
    vm->registers = false;
    vm->library = NULL;
    lua_settop(vm->lua, 0);
    look_by_size(vm);
}

bool script_vm_finish(struct script_vm *vm)
{
    vm->job = NULL;
    lua_settop(vm->lua, 0);
    if (!vm->is_spoiled && vm->bytes > SCRIPT_KEPT_BYTES)
        lua_gc(vm->lua, LUA_GCCOLLECT, 0);
    return !vm->is_spoiled && vm->bytes <= SCRIPT_KEPT_BYTES;
}

int script_vm_call(struct script_vm *vm, lua_CFunction function, void *argument)
{
    return lua_cpcall(vm->lua, function, argument);
}

/* Of a text that is compiled: what was not read yet. */
static const char *read_script_piece(lua_State *lua, void *context, size_t *size)
{
    struct kv_slice *left = context;
    const char *piece = left->data;
    script_vm_check(lua);
    *size = left->size < PIECE_BYTES ? left->size : PIECE_BYTES;
    *left = kv_slice(piece + *size, left->size - *size);
    return *size > 0 ? piece : NULL;
}

int script_vm_load(lua_State *lua, struct kv_slice text, const char *name)
{
    return lua_load(lua, read_script_piece, &text, name);
}

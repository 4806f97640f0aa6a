#include "bridges/kresp/script/script_vm.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "common/time/clock.h"
#include "bridges/kresp/session/redis_session.h"
#include "bridges/kresp/session/transaction_run.h"

/* Instructions between two looks at the clock; one may take some milliseconds, if it is about long
 * strings. */
#define INSTRUCTIONS 200

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

void script_vm_abandon(struct script_vm *vm, const char *reason)
{
    vm->must_end = true;
    if (vm->job && vm->job->run)
        redis_transaction_abandon(vm->job->run, reason);
    lua_sethook(vm->lua, end_by_hook, LUA_MASKCOUNT, 1);
}

static uint64_t first_ns_of(struct script_vm *vm)
{
    if (vm->job->run)
        return redis_transaction_first_ns(vm->job->run);
    if (vm->first_ns == 0)
        vm->first_ns = clock_thread_ns();
    return vm->first_ns;
}

void script_vm_check(lua_State *lua)
{
    struct script_vm *vm = script_vm_at(lua);
    if (!vm->must_end && vm->job) {
        uint64_t now_ms = clock_monotonic_coarse_ms();
        if (now_ms == vm->seen_ms)
            return;
        vm->seen_ms = now_ms;
        uint64_t first_ns = first_ns_of(vm);
        if (atomic_load(&vm->job->session->user->script_kills) != vm->kills)
            script_vm_abandon(vm, "ERR Error running script: Script killed by user with SCRIPT "
                                  "KILL");
        else if (clock_thread_ns() - first_ns > (uint64_t)vm->cpu_ms * 1000000)
            script_vm_abandon(vm, "BUSY kresp: the script takes more CPU time than it may");
    }
    if (vm->must_end)
        luaL_error(lua, "the script has to end");
}

static void check_by_hook(lua_State *lua, lua_Debug *record)
{
    (void)record;
    script_vm_check(lua);
}

void script_vm_begin(struct script_vm *vm, struct redis_job *job)
{
    vm->job = job;
    vm->must_end = false;
    vm->rights = (struct script_rights){0};
    vm->keys = NULL;
    vm->key_count = 0;
    vm->protocol = 2;
    vm->first_ns = vm->seen_ms = 0;
    vm->kills = atomic_load(&job->session->user->script_kills);
    vm->is_seeded = false;
    vm->registers = false;
    vm->library = NULL;
    lua_settop(vm->lua, 0);
    lua_sethook(vm->lua, check_by_hook, LUA_MASKCOUNT, INSTRUCTIONS);
}

int script_vm_call(struct script_vm *vm, lua_CFunction function, void *argument)
{
    return lua_cpcall(vm->lua, function, argument);
}

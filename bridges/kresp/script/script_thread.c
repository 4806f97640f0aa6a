#include "bridges/kresp/script/script_thread.h"

#include <stdlib.h>

#include "bridges/kresp/script/lua_sandbox.h"
#include "bridges/kresp/session/transaction_run.h"

/* Lua's memory. */
static void *allocate_for_script(void *context, void *old, size_t old_size, size_t size)
{
    struct script_vm *vm = context;
    if (size == 0) {
        free(old);
        script_vm_note_block(vm, old_size, 0);
        return NULL;
    }
    if (size > old_size && size - old_size > SCRIPT_MEMORY_BYTES - vm->bytes)
        return NULL;
    void *given = realloc(old, size);
    if (!given && size < old_size)
        given = old; /* Lua takes for granted that memory can become smaller */
    if (given)
        script_vm_note_block(vm, old_size, size);
    return given;
}

static void free_script_vm(void *context)
{
    struct script_vm *vm = context;
    if (vm->lua)
        lua_close(vm->lua);
    free(vm);
}

struct script_vm *script_thread_vm(const struct redis_job *job)
{
    struct thread_scripts *scripts = job->memory->scripts;
    if (!scripts)
        return NULL;
    if (scripts->vm)
        return scripts->vm;
    struct script_vm *vm = calloc(1, sizeof *vm);
    if (!vm)
        return NULL;
    vm->lua = lua_newstate(allocate_for_script, vm);
    if (!vm->lua || lua_cpcall(vm->lua, lua_sandbox_open, NULL) != 0) {
        free_script_vm(vm);
        return NULL;
    }
    vm->cpu_ms = TRANSACTION_CPU_MS;
    vm->clock_ms = TRANSACTION_CLOCK_MS;
    scripts->vm = vm;
    scripts->free = free_script_vm;
    return vm;
}

void script_thread_discard(const struct redis_job *job)
{
    struct thread_scripts *scripts = job->memory->scripts;
    if (scripts->vm)
        scripts->free(scripts->vm);
    scripts->vm = NULL;
}

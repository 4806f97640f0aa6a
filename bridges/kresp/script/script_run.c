#include "bridges/kresp/script/script_run.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "bridges/kresp/script/script_cache.h"
#include "bridges/kresp/script/script_call.h"

/* A VM keeps so many compiled scripts, and begins anew then. */
#define COMPILED_MAX 1000u

/* The name of every script, in errors. */
#define CHUNK_NAME "@user_script"

/* Compiling ----------------------------------------------------------------------------------- */

/* Reads the first line, if it is "#!lua ...": its size, and the rights that its flags leave. False:
 * the call has an error. */
static bool read_shebang(struct script_call *call, size_t *size, bool *no_writes)
{
    const char *text = call->text.data;
    char line[160], *rest, *word;
    *size = 0;
    *no_writes = false;
    if (call->text.size < 2 || text[0] != '#' || text[1] != '!')
        return true;
    const char *end = memchr(text, '\n', call->text.size);
    if (!end || (size_t)(end - text) >= sizeof line) {
        snprintf(call->error, sizeof call->error, "ERR Invalid script shebang");
        return false;
    }
    *size = (size_t)(end - text);
    memcpy(line, text, *size);
    line[*size] = '\0';
    word = strtok_r(line, " \r", &rest);
    if (strcmp(word, "#!lua") != 0) {
        snprintf(call->error, sizeof call->error, "ERR Unexpected engine in script shebang: %.*s",
                 100, word);
        return false;
    }
    while ((word = strtok_r(NULL, " \r", &rest))) {
        char *flags, *flag;
        if (strncmp(word, "flags=", 6) != 0) {
            snprintf(call->error, sizeof call->error, "ERR Unknown lua shebang option: %.*s", 100,
                     word);
            return false;
        }
        for (flag = strtok_r(word + 6, ",", &flags); flag; flag = strtok_r(NULL, ",", &flags)) {
            if (strcmp(flag, "no-writes") == 0) {
                *no_writes = true;
            } else if (strcmp(flag, "allow-oom") != 0 && strcmp(flag, "allow-stale") != 0 &&
                       strcmp(flag, "no-cluster") != 0 &&
                       strcmp(flag, "allow-cross-slot-keys") != 0) {
                snprintf(call->error, sizeof call->error,
                         "ERR Unexpected flag in script "
                         "shebang: %.*s",
                         100, flag);
                return false;
            }
        }
    }
    return true;
}

/* Pushes the compiled text and the rights of the script. */
static bool compile_script(lua_State *lua, struct script_call *call)
{
    size_t shebang;
    bool no_writes;
    call->outcome = SCRIPT_BAD_TEXT;
    if (!read_shebang(call, &shebang, &no_writes))
        return false;
    const char *text = (const char *)call->text.data + shebang;
    size_t size = call->text.size - shebang;
    lua_pushliteral(lua, CHUNK_NAME); /* held while it is compiled */
    if (size > 0 && text[0] == LUA_SIGNATURE[0]) {
        snprintf(call->error, sizeof call->error,
                 "ERR Error compiling script (new function): bytecode is not loaded");
        return false;
    }
    if (script_vm_load(lua, kv_slice(text, size), CHUNK_NAME) != 0) {
        snprintf(call->error, sizeof call->error, "ERR Error compiling script (new function): %s",
                 lua_tostring(lua, -1));
        return false;
    }
    lua_remove(lua, -2);
    lua_pushboolean(lua, no_writes);
    return true;
}

/* Forgets what is compiled if it is too much, or if the scripts were flushed. */
static void limit_compiled(lua_State *lua, struct script_vm *vm)
{
    uint64_t flushes = script_cache_flushes();
    if (vm->compiled < COMPILED_MAX && vm->cache_flush == flushes)
        return;
    lua_newtable(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, SCRIPT_COMPILED);
    vm->compiled = 0;
    vm->cache_flush = flushes;
}

/* Pushes the compiled script and its rights; false: `outcome` says why not. */
static bool push_script(lua_State *lua, struct script_call *call)
{
    struct script_text **held = call->context;
    limit_compiled(lua, call->vm);
    lua_getfield(lua, LUA_REGISTRYINDEX, SCRIPT_COMPILED);
    lua_getfield(lua, -1, call->name);
    if (lua_istable(lua, -1)) {
        lua_rawgeti(lua, -1, 1);
        lua_rawgeti(lua, -2, 2);
        return true;
    }
    lua_pop(lua, 1);
    if (!call->text.data) {
        call->outcome = SCRIPT_ABSENT;
        *held = script_cache_find(call->name);
        if (!*held)
            return false;
        call->text = script_text_slice(*held);
    }
    if (!compile_script(lua, call))
        return false;
    lua_createtable(lua, 2, 0);
    lua_pushvalue(lua, -3);
    lua_rawseti(lua, -2, 1);
    lua_pushvalue(lua, -2);
    lua_rawseti(lua, -2, 2);
    lua_setfield(lua, -4, call->name);
    call->vm->compiled++;
    if (!*held)
        script_cache_add(call->name, call->text);
    return true;
}

/* Running ------------------------------------------------------------------------------------- */

static int run_under_lua(lua_State *lua)
{
    struct script_call *call = lua_touserdata(lua, 1);
    struct script_vm *vm = call->vm;
    const struct script_arguments *arguments = call->arguments;
    if (!push_script(lua, call))
        return 0;
    call->outcome = SCRIPT_RUN;
    if (!arguments)
        return 0;
    vm->rights.no_writes = lua_toboolean(lua, -1) || arguments->read_only;
    lua_pop(lua, 1);
    lua_getfield(lua, LUA_REGISTRYINDEX, SCRIPT_VARIABLES);
    lua_pushliteral(lua, "KEYS");
    script_push_list(lua, arguments->keys, arguments->key_count);
    lua_rawset(lua, -3);
    lua_pushliteral(lua, "ARGV");
    script_push_list(lua, arguments->rest, arguments->rest_count);
    lua_rawset(lua, -3);
    lua_pop(lua, 1);
    script_call_reply(lua, call, 0);
    return 0;
}

bool script_run(struct redis_job *job, const char hex[SHA1_HEX_BYTES], struct kv_slice text,
                const struct script_arguments *arguments)
{
    struct script_text *held = NULL;
    struct script_call call = {
        .job = job, .name = hex, .text = text, .arguments = arguments, .context = &held};
    script_call_run(&call, run_under_lua);
    script_text_release(held);
    return call.outcome != SCRIPT_ABSENT;
}

bool script_load_text(struct redis_job *job, const char hex[SHA1_HEX_BYTES], struct kv_slice text)
{
    struct script_text *held = NULL;
    struct script_call call = {.job = job, .name = hex, .text = text, .context = &held};
    script_call_run(&call, run_under_lua);
    script_text_release(held);
    if (!job->error)
        script_cache_add(hex, text);
    return !job->error;
}

bool script_is_loaded(const char hex[SHA1_HEX_BYTES])
{
    struct script_text *text = script_cache_find(hex);
    script_text_release(text);
    return text != NULL;
}

void script_flush_texts(void)
{
    script_cache_flush();
}

#include "bridges/kresp/script/script_run.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "bridges/kresp/script/lua_values.h"
#include "bridges/kresp/script/script_cache.h"
#include "bridges/kresp/script/script_thread.h"
#include "bridges/kresp/session/redis_session.h"
#include "bridges/kresp/session/transaction_run.h"

/* A VM keeps so many compiled scripts, and begins anew then. */
#define COMPILED_MAX 1000u

/* The name of every script, in errors. */
#define CHUNK_NAME "@user_script"

enum script_outcome {
    SCRIPT_RUN,      /* the reply is written */
    SCRIPT_ABSENT,   /* no such script */
    SCRIPT_BAD_TEXT, /* see `error` */
    SCRIPT_TOO_LARGE /* for the memory that it may have */
};

/* One call of script_run, for what runs under lua_cpcall. */
struct script_call {
    struct script_vm *vm;
    struct redis_job *job;
    const char *hex;
    struct kv_slice text;
    const struct script_arguments *arguments; /* NULL: the script is only compiled */
    struct script_text *held;
    enum script_outcome outcome;
    char error[256]; /* of SCRIPT_BAD_TEXT */
};

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
    if (luaL_loadbuffer(lua, text, size, CHUNK_NAME) != 0) {
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
    limit_compiled(lua, call->vm);
    lua_getfield(lua, LUA_REGISTRYINDEX, SCRIPT_COMPILED);
    lua_getfield(lua, -1, call->hex);
    if (lua_istable(lua, -1)) {
        lua_rawgeti(lua, -1, 1);
        lua_rawgeti(lua, -2, 2);
        return true;
    }
    lua_pop(lua, 1);
    if (!call->text.data) {
        call->outcome = SCRIPT_ABSENT;
        call->held = script_cache_find(call->hex);
        if (!call->held)
            return false;
        call->text = script_text_slice(call->held);
    }
    if (!compile_script(lua, call))
        return false;
    lua_createtable(lua, 2, 0);
    lua_pushvalue(lua, -3);
    lua_rawseti(lua, -2, 1);
    lua_pushvalue(lua, -2);
    lua_rawseti(lua, -2, 2);
    lua_setfield(lua, -4, call->hex);
    call->vm->compiled++;
    if (!call->held)
        script_cache_add(call->hex, call->text);
    return true;
}

/* Running ------------------------------------------------------------------------------------- */

static void set_global_list(lua_State *lua, const char *name, const struct kv_slice *items,
                            size_t count)
{
    lua_pushstring(lua, name);
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, items[i].data ? items[i].data : "", items[i].size);
        lua_rawseti(lua, -2, (int)i + 1);
    }
    lua_rawset(lua, -3);
}

/* Makes a table of what was raised, a new one, since that may be a table that others see: err, and
 * where. */
static int describe_error(lua_State *lua)
{
    lua_Debug at;
    bool found = lua_getstack(lua, 1, &at) && lua_getinfo(lua, "Sl", &at);
    if (found && *at.what == 'C')
        found = lua_getstack(lua, 2, &at) && lua_getinfo(lua, "Sl", &at);
    lua_settop(lua, 1);
    lua_createtable(lua, 0, 3);
    if (lua_istable(lua, 1)) {
        lua_pushliteral(lua, "err");
        lua_rawget(lua, 1);
    } else if (lua_isstring(lua, 1)) {
        lua_pushfstring(lua, "ERR %s", lua_tostring(lua, 1));
    } else {
        lua_pushfstring(lua, "ERR %s", luaL_typename(lua, 1));
    }
    lua_setfield(lua, 2, "err");
    if (found) {
        lua_pushstring(lua, at.source);
        lua_setfield(lua, 2, "source");
        lua_pushinteger(lua, at.currentline);
        lua_setfield(lua, 2, "line");
    }
    return 1;
}

/* Replies the error, which describe_error has made, from the top. */
static void reply_script_error(lua_State *lua, struct script_call *call)
{
    if (!lua_istable(lua, -1)) /* describe_error itself has failed */
        lua_newtable(lua);
    lua_getfield(lua, -1, "err");
    lua_getfield(lua, -2, "source");
    lua_getfield(lua, -3, "line");
    const char *error = lua_isstring(lua, -3) ? lua_tostring(lua, -3) : "ERR unknown error";
    const char *source = lua_tostring(lua, -2), *line = lua_tostring(lua, -1);
    lua_createtable(lua, 0, 1);
    if (source && line)
        lua_pushfstring(lua, "%s script: %s, on %s:%s.", error, call->hex, source, line);
    else
        lua_pushfstring(lua, "%s script: %s", error, call->hex);
    lua_setfield(lua, -2, "err");
    lua_write_reply(lua, redis_job_reply(call->job), false);
}

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
    set_global_list(lua, "KEYS", arguments->keys, arguments->key_count);
    set_global_list(lua, "ARGV", arguments->rest, arguments->rest_count);
    lua_pop(lua, 1);
    lua_pushcfunction(lua, describe_error);
    lua_insert(lua, -2);
    int status = lua_pcall(lua, 0, 1, -2);
    if (status == LUA_ERRMEM)
        call->outcome = SCRIPT_TOO_LARGE;
    else if (status != 0)
        reply_script_error(lua, call);
    else
        lua_write_reply(lua, redis_job_reply(call->job), vm->protocol == 3);
    return 0;
}

/* Runs the call in the thread's VM; what it leaves as a reply, if it fails, is an error. */
static void run_script_call(struct script_call *call)
{
    struct redis_job *job = call->job;
    struct resp_reply *reply = redis_job_reply(job);
    size_t mark = byte_buffer_size(&reply->bytes);
    int protocol = reply->protocol;
    call->vm = script_thread_vm(job);
    if (!call->vm) {
        redis_job_fail(job, "ERR kresp: out of memory");
        return;
    }
    script_vm_begin(call->vm, job);
    if (call->arguments) {
        call->vm->keys = call->arguments->keys;
        call->vm->key_count = call->arguments->key_count;
    }
    atomic_fetch_add(&job->session->user->scripts_running, 1);
    int status = script_vm_call(call->vm, run_under_lua, call);
    atomic_fetch_sub(&job->session->user->scripts_running, 1);
    bool discards = call->vm->must_end;
    if (status == LUA_ERRMEM || call->outcome == SCRIPT_TOO_LARGE) {
        discards = true;
        if (job->run)
            redis_transaction_abandon(job->run, "ERR kresp: the script takes more memory than it "
                                                "may");
        redis_job_fail(job, "ERR kresp: the script takes more memory than it may");
    } else if (status != 0) {
        redis_job_fail(job, "ERR %s", lua_tostring(call->vm->lua, -1));
    } else if (call->outcome == SCRIPT_BAD_TEXT) {
        redis_job_fail(job, "%s", call->error);
    }
    if (job->error) {
        reply->bytes.end = reply->bytes.start + mark;
        reply->protocol = protocol;
    }
    call->vm->job = NULL;
    lua_settop(call->vm->lua, 0);
    script_text_release(call->held);
    if (discards)
        script_thread_discard(job);
}

bool script_run(struct redis_job *job, const char hex[SHA1_HEX_BYTES], struct kv_slice text,
                const struct script_arguments *arguments)
{
    struct script_call call = {
        .job = job, .hex = hex, .text = text, .arguments = arguments, .outcome = SCRIPT_RUN};
    run_script_call(&call);
    return call.outcome != SCRIPT_ABSENT;
}

bool script_load_text(struct redis_job *job, const char hex[SHA1_HEX_BYTES], struct kv_slice text)
{
    struct script_call call = {.job = job, .hex = hex, .text = text, .outcome = SCRIPT_RUN};
    run_script_call(&call);
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

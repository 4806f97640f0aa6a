#include "bridges/kresp/script/script_call.h"

#include <lauxlib.h>
#include <stdio.h>

#include "bridges/kresp/script/lua_values.h"
#include "bridges/kresp/script/script_thread.h"
#include "bridges/kresp/session/redis_session.h"
#include "bridges/kresp/session/transaction_run.h"

void script_forget_lists(lua_State *lua)
{
    lua_getfield(lua, LUA_REGISTRYINDEX, SCRIPT_VARIABLES);
    lua_pushnil(lua);
    lua_setfield(lua, -2, "KEYS");
    lua_pushnil(lua);
    lua_setfield(lua, -2, "ARGV");
    lua_pop(lua, 1);
}

void script_push_list(lua_State *lua, const struct kv_slice *items, size_t count)
{
    lua_createtable(lua, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushlstring(lua, items[i].data ? items[i].data : "", items[i].size);
        lua_rawseti(lua, -2, (int)i + 1);
    }
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
        lua_pushfstring(lua, "%s script: %s, on %s:%s.", error, call->name, source, line);
    else
        lua_pushfstring(lua, "%s script: %s", error, call->name);
    lua_setfield(lua, -2, "err");
    lua_write_reply(lua, redis_job_reply(call->job), false);
}

void script_call_reply(lua_State *lua, struct script_call *call, int count)
{
    lua_pushcfunction(lua, describe_error);
    lua_insert(lua, -count - 2);
    int status = lua_pcall(lua, count, 1, -count - 2);
    if (status == LUA_ERRMEM)
        call->outcome = SCRIPT_TOO_LARGE;
    else if (status != 0)
        reply_script_error(lua, call);
    else
        lua_write_reply(lua, redis_job_reply(call->job), call->vm->protocol == 3);
}

bool script_call_quietly(lua_State *lua, struct script_call *call, const char *what)
{
    int status = lua_pcall(lua, 0, 0, 0);
    if (status == LUA_ERRMEM) {
        call->outcome = SCRIPT_TOO_LARGE;
    } else if (status != 0) {
        bool is_reply = lua_istable(lua, -1);
        if (is_reply) {
            lua_pushliteral(lua, "err");
            lua_rawget(lua, -2);
        }
        call->outcome = SCRIPT_BAD_TEXT;
        snprintf(call->error, sizeof call->error, "ERR %s: %s%s", what, is_reply ? "" : "ERR ",
                 lua_isstring(lua, -1) ? lua_tostring(lua, -1) : "unknown error");
    }
    return status == 0;
}

void script_call_run(struct script_call *call, lua_CFunction function)
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
    int status = script_vm_call(call->vm, function, call);
    atomic_fetch_sub(&job->session->user->scripts_running, 1);
    if (status == LUA_ERRMEM || call->outcome == SCRIPT_TOO_LARGE) {
        call->vm->is_spoiled = true;
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
    if (!script_vm_finish(call->vm))
        script_thread_discard(job);
}

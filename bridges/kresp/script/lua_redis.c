#include "bridges/kresp/script/lua_redis.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/report/log.h"
#include "bridges/kresp/protocol/sha1.h"
#include "bridges/kresp/script/lua_register.h"
#include "bridges/kresp/script/lua_values.h"
#include "bridges/kresp/script/script_vm.h"
#include "bridges/kresp/session/redis_command.h"
#include "bridges/kresp/session/transaction_run.h"

/* Arguments of a command that need no memory of their own. */
#define FEW_ARGUMENTS 16

/* What redis.log shows of a message. */
#define LOGGED_BYTES 256

static int push_error_table(lua_State *lua, const char *text)
{
    lua_createtable(lua, 0, 1);
    lua_pushstring(lua, text);
    lua_setfield(lua, -2, "err");
    return 1;
}

/* What redis.call raises, redis.pcall returns. */
static int fail_call(lua_State *lua, bool raises, const char *text)
{
    push_error_table(lua, text);
    return raises ? lua_error(lua) : 1;
}

/* Makes slices of the arguments; false: one is neither a string nor a number. Numbers become
 * strings on the stack. */
static bool take_arguments(lua_State *lua, struct kv_slice *arguments, int count)
{
    for (int i = 0; i < count; i++) {
        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            char digits[64];
            int size = snprintf(digits, sizeof digits, "%.17g", lua_tonumber(lua, i + 1));
            lua_pushlstring(lua, digits, (size_t)size);
            lua_replace(lua, i + 1);
        } else if (lua_type(lua, i + 1) != LUA_TSTRING) {
            return false;
        }
        arguments[i].data = lua_tolstring(lua, i + 1, &arguments[i].size);
    }
    return true;
}

/* Executes the command and pushes what it replied. */
static void execute_called(lua_State *lua, const struct redis_command *command,
                           const struct kv_slice *arguments, size_t count)
{
    struct script_vm *vm = script_vm_at(lua);
    struct resp_reply *reply = redis_job_reply(vm->job);
    size_t mark = byte_buffer_size(&reply->bytes);
    int protocol = reply->protocol;
    reply->protocol = vm->protocol;
    bool goes_on =
        redis_transaction_call(vm->job->run, command, arguments, count, vm->keys, vm->key_count);
    reply->protocol = protocol;
    byte_buffer_append(&reply->bytes, "", 1); /* what is read is a string */
    if (!goes_on || reply->bytes.failed)
        script_vm_end(lua);
    /* It is taken back first: for want of memory Lua leaves from the next line. */
    reply->bytes.end = reply->bytes.start + mark;
    lua_push_reply(lua, reply->bytes.data + reply->bytes.start + mark);
}

static int call_command(lua_State *lua, bool raises)
{
    struct kv_slice few[FEW_ARGUMENTS], *arguments = few;
    struct script_vm *vm = script_vm_at(lua);
    int count = lua_gettop(lua);
    const char *error;
    script_vm_check(lua);
    if (!vm->job || !vm->job->run || vm->registers)
        return fail_call(lua, raises,
                         "ERR redis.call can only be called inside a script "
                         "invocation");
    if (count == 0)
        return fail_call(lua, raises,
                         "ERR Please specify at least one argument for this redis lib call");
    if (count > FEW_ARGUMENTS)
        arguments = lua_newuserdata(lua, (size_t)count * sizeof *arguments);
    if (!take_arguments(lua, arguments, count))
        return fail_call(lua, raises,
                         "ERR Lua redis lib command arguments must be strings or integers");
    const struct redis_command *command;
    switch (redis_command_find_called(arguments, (size_t)count, &command, &error)) {
    case CALLED_OK:
        break;
    case CALLED_UNKNOWN:
        lua_pushfstring(lua, "%s: kresp has no '%s'", error, lua_tostring(lua, 1));
        return fail_call(lua, raises, lua_tostring(lua, -1));
    case CALLED_REFUSED:
        return fail_call(lua, raises, error);
    }
    if (vm->rights.no_writes && (command->flags & COMMAND_WRITE))
        return fail_call(lua, raises, "ERR Write commands are not allowed from read-only scripts.");
    execute_called(lua, command, arguments, (size_t)count);
    if (raises && lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        bool failed = lua_isstring(lua, -1);
        lua_pop(lua, 1);
        if (failed)
            return lua_error(lua);
    }
    return 1;
}

static int redis_lib_call(lua_State *lua)
{
    return call_command(lua, true);
}

static int redis_lib_pcall(lua_State *lua)
{
    return call_command(lua, false);
}

static int redis_lib_sha1hex(lua_State *lua)
{
    char hex[SHA1_HEX_BYTES];
    struct kv_slice text;
    script_vm_check(lua);
    if (lua_gettop(lua) != 1)
        return fail_call(lua, true, "ERR wrong number of arguments");
    text.data = lua_tolstring(lua, 1, &text.size);
    sha1_hex(text.data ? text : kv_slice("", 0), hex);
    lua_pushlstring(lua, hex, SHA1_HEX_BYTES - 1);
    return 1;
}

static int single_field(lua_State *lua, const char *field)
{
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING)
        return push_error_table(lua, "ERR wrong number or type of arguments");
    lua_createtable(lua, 0, 1);
    lua_pushvalue(lua, 1);
    lua_setfield(lua, -2, field);
    return 1;
}

static int redis_lib_status_reply(lua_State *lua)
{
    return single_field(lua, "ok");
}

/* An error without a code gets the code ERR. */
static int redis_lib_error_reply(lua_State *lua)
{
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING)
        return push_error_table(lua, "ERR wrong number or type of arguments");
    const char *text = lua_tostring(lua, 1);
    if (*text == '-')
        text++;
    if (!strchr(text, ' '))
        text = lua_pushfstring(lua, "ERR %s", text);
    return push_error_table(lua, text);
}

/* redis.log(level, ...): clients must not fill the log, so it is seen with --verbose alone. */
static int redis_lib_log(lua_State *lua)
{
    int count = lua_gettop(lua);
    char text[LOGGED_BYTES];
    size_t size = 0;
    if (count < 2)
        return fail_call(lua, true, "ERR redis.log() requires two arguments or more.");
    if (!lua_isnumber(lua, 1))
        return fail_call(lua, true, "ERR First argument must be a number (log level).");
    if (lua_tonumber(lua, 1) < 0 || lua_tonumber(lua, 1) > 3)
        return fail_call(lua, true, "ERR Invalid debug level.");
    for (int i = 2; i <= count && size < sizeof text - 1; i++) {
        size_t more;
        const char *part = lua_tolstring(lua, i, &more);
        for (size_t j = 0; part && j < more && size < sizeof text - 1; j++)
            text[size++] = (char)(part[j] >= ' ' && part[j] < 127 ? part[j] : '?');
    }
    text[size] = '\0';
    log_debug("a script says: %s", text);
    return 0;
}

static int redis_lib_setresp(lua_State *lua)
{
    if (lua_gettop(lua) != 1)
        return fail_call(lua, true, "ERR redis.setresp() requires one argument.");
    if (lua_tonumber(lua, 1) != 2 && lua_tonumber(lua, 1) != 3)
        return fail_call(lua, true, "ERR RESP version must be 2 or 3.");
    script_vm_at(lua)->protocol = (int)lua_tonumber(lua, 1);
    return 0;
}

/* Writes are always replicated by what they do, as nothing else is here. */
static int redis_lib_replicate_commands(lua_State *lua)
{
    lua_pushboolean(lua, true);
    return 1;
}

static int redis_lib_set_repl(lua_State *lua)
{
    if (lua_gettop(lua) != 1)
        return fail_call(lua, true, "ERR redis.set_repl() requires two arguments.");
    if (lua_tonumber(lua, 1) < 0 || lua_tonumber(lua, 1) > 3)
        return fail_call(lua, true,
                         "ERR Invalid replication flags. Use REPL_AOF, "
                         "REPL_REPLICA, REPL_ALL or REPL_NONE.");
    return 0;
}

/* There is no debugger. */
static int redis_lib_breakpoint(lua_State *lua)
{
    lua_pushboolean(lua, false);
    return 1;
}

static int redis_lib_debug(lua_State *lua)
{
    (void)lua;
    return 0;
}

/* There are no rights of commands: whatever exists may be called. */
static int redis_lib_acl_check_cmd(lua_State *lua)
{
    struct kv_slice few[FEW_ARGUMENTS], *arguments = few;
    int count = lua_gettop(lua);
    const char *error;
    if (count == 0)
        return fail_call(lua, true,
                         "ERR Please specify at least one argument for this redis lib call");
    if (count > FEW_ARGUMENTS)
        arguments = lua_newuserdata(lua, (size_t)count * sizeof *arguments);
    if (!take_arguments(lua, arguments, count))
        return fail_call(lua, true,
                         "ERR redis.acl_check_cmd() command arguments must be strings or "
                         "integers");
    const struct redis_command *command;
    if (redis_command_find_called(arguments, (size_t)count, &command, &error) == CALLED_UNKNOWN)
        return fail_call(lua, true, "ERR Invalid command passed to redis.acl_check_cmd()");
    lua_pushboolean(lua, true);
    return 1;
}

void lua_redis_open(lua_State *lua)
{
    static const luaL_Reg functions[] = {{"call", redis_lib_call},
                                         {"pcall", redis_lib_pcall},
                                         {"sha1hex", redis_lib_sha1hex},
                                         {"status_reply", redis_lib_status_reply},
                                         {"error_reply", redis_lib_error_reply},
                                         {"log", redis_lib_log},
                                         {"setresp", redis_lib_setresp},
                                         {"replicate_commands", redis_lib_replicate_commands},
                                         {"set_repl", redis_lib_set_repl},
                                         {"breakpoint", redis_lib_breakpoint},
                                         {"debug", redis_lib_debug},
                                         {"acl_check_cmd", redis_lib_acl_check_cmd},
                                         {"register_function", lua_register_function},
                                         {NULL, NULL}};
    static const struct {
        const char *name;
        int value;
    } numbers[] = {{"LOG_DEBUG", 0},   {"LOG_VERBOSE", 1},  {"LOG_NOTICE", 2},
                   {"LOG_WARNING", 3}, {"REPL_NONE", 0},    {"REPL_AOF", 1},
                   {"REPL_SLAVE", 2},  {"REPL_REPLICA", 2}, {"REPL_ALL", 3}};
    int major = 0, minor = 0, patch = 0;
    lua_newtable(lua);
    luaL_register(lua, NULL, functions);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        lua_pushinteger(lua, numbers[i].value);
        lua_setfield(lua, -2, numbers[i].name);
    }
    // NOLINTNEXTLINE(cert-err34-c): the text is constant
    sscanf(REDIS_COMPATIBLE_VERSION, "%d.%d.%d", &major, &minor, &patch);
    lua_pushliteral(lua, REDIS_COMPATIBLE_VERSION);
    lua_setfield(lua, -2, "REDIS_VERSION");
    lua_pushinteger(lua, major << 16 | minor << 8 | patch);
    lua_setfield(lua, -2, "REDIS_VERSION_NUM");
}

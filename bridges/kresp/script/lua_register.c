#include "bridges/kresp/script/lua_register.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "bridges/kresp/script/script_library.h"
#include "bridges/kresp/script/script_vm.h"

static int fail_register(lua_State *lua, const char *text)
{
    lua_createtable(lua, 0, 1);
    lua_pushfstring(lua, "ERR %s", text);
    lua_setfield(lua, -2, "err");
    return lua_error(lua);
}

/* Reads the list of flags on the top. */
static unsigned read_flags(lua_State *lua)
{
    unsigned flags = 0;
    for (int i = 1;; i++) {
        lua_rawgeti(lua, -1, i);
        if (lua_isnil(lua, -1)) {
            lua_pop(lua, 1);
            return flags;
        }
        unsigned flag = lua_isstring(lua, -1) ? function_flag_of(lua_tostring(lua, -1)) : 0;
        if (flag == 0)
            fail_register(lua, "unknown flag given");
        flags |= flag;
        lua_pop(lua, 1);
    }
}

static void take_function_name(lua_State *lua, struct library_function *function, int at)
{
    size_t size;
    if (!lua_isstring(lua, at))
        fail_register(lua, "function_name argument given to redis.register_function must be a "
                           "string");
    lua_pushvalue(lua, at); /* a number becomes a string, which must not be that of a lua_next */
    const char *name = lua_tolstring(lua, -1, &size);
    if (!script_library_is_name(name, size))
        fail_register(lua, "Library names can only contain letters, numbers, or underscores(_) and "
                           "must be at least one character long");
    memcpy(function->name, name, size);
    lua_pop(lua, 1);
}

/* The table of named arguments at 1; leaves the callback on the top. */
static void take_named_arguments(lua_State *lua, struct library_function *function)
{
    lua_pushnil(lua); /* the callback, at 2 */
    lua_pushnil(lua);
    while (lua_next(lua, 1) != 0) {
        const char *key = lua_type(lua, -2) == LUA_TSTRING ? lua_tostring(lua, -2) : "";
        if (strcmp(key, "function_name") == 0) {
            take_function_name(lua, function, -1);
        } else if (strcmp(key, "description") == 0) {
            if (lua_type(lua, -1) != LUA_TSTRING)
                fail_register(lua, "description argument given to redis.register_function must be "
                                   "a string");
            function->is_described = true;
            snprintf(function->description, sizeof function->description, "%s",
                     lua_tostring(lua, -1));
        } else if (strcmp(key, "callback") == 0) {
            if (!lua_isfunction(lua, -1))
                fail_register(lua, "callback argument given to redis.register_function must be a "
                                   "function");
            lua_pushvalue(lua, -1);
            lua_replace(lua, 2);
        } else if (strcmp(key, "flags") == 0) {
            if (!lua_istable(lua, -1))
                fail_register(lua, "flags argument to redis.register_function must be a table "
                                   "representing function flags");
            function->flags = read_flags(lua);
        } else {
            fail_register(lua, "unknown argument given to redis.register_function");
        }
        lua_pop(lua, 1);
    }
    if (function->name[0] == '\0')
        fail_register(lua, "redis.register_function must get a function name argument");
    if (lua_isnil(lua, 2))
        fail_register(lua, "redis.register_function must get a callback argument");
}

int lua_register_function(lua_State *lua)
{
    struct library_function function = {.flags = 0};
    struct script_vm *vm = script_vm_at(lua);
    int count = lua_gettop(lua);
    if (!vm->registers)
        return fail_register(lua, "redis.register_function can only be called on FUNCTION LOAD "
                                  "command");
    if (count < 1 || count > 2)
        return fail_register(lua, "wrong number of arguments to redis.register_function");
    if (count == 1 && !lua_istable(lua, 1))
        return fail_register(lua, "calling redis.register_function with a single argument is only "
                                  "applicable to Lua table (representing named arguments).");
    if (count == 1) {
        take_named_arguments(lua, &function);
    } else {
        take_function_name(lua, &function, 1);
        if (!lua_isfunction(lua, 2))
            return fail_register(lua, "second argument to redis.register_function must be a "
                                      "function");
    }
    const char *error = vm->library ? script_library_add(vm->library, &function) : NULL;
    if (error)
        return fail_register(lua, error + strlen("ERR "));
    lua_getfield(lua, LUA_REGISTRYINDEX, SCRIPT_FUNCTIONS);
    lua_createtable(lua, 2, 0);
    lua_pushvalue(lua, 2);
    lua_rawseti(lua, -2, 1);
    lua_pushinteger(lua, (lua_Integer)function.flags);
    lua_rawseti(lua, -2, 2);
    lua_setfield(lua, -2, function.name);
    return 0;
}

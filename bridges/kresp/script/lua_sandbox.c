#include "bridges/kresp/script/lua_sandbox.h"

#include <lauxlib.h>
#include <lualib.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/script/lua_bit.h"
#include "bridges/kresp/script/lua_json.h"
#include "bridges/kresp/script/lua_pattern.h"
#include "bridges/kresp/script/lua_redis.h"
#include "bridges/kresp/script/script_vm.h"

#define READ_ONLY "Attempt to modify a readonly table"

/* The most values that unpack gives. */
#define UNPACKED_MAX 8000

/* What stands in the metatable of a table that is protected. */
static char protected_mark;

static int refuse_change(lua_State *lua)
{
    return luaL_error(lua, READ_ONLY);
}

/* The same of a function, which Redis raises without a place. */
static int refuse_call(lua_State *lua)
{
    lua_pushliteral(lua, READ_ONLY);
    return lua_error(lua);
}

static bool is_protected(lua_State *lua, int at)
{
    if (!lua_getmetatable(lua, at))
        return false;
    lua_pushlightuserdata(lua, &protected_mark);
    lua_rawget(lua, -2);
    bool marked = lua_toboolean(lua, -1);
    lua_pop(lua, 2);
    return marked;
}

void lua_sandbox_protect(lua_State *lua)
{
    lua_newtable(lua); /* what is shown */
    lua_createtable(lua, 0, 4);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, refuse_change);
    lua_setfield(lua, -2, "__newindex");
    lua_pushvalue(lua, -2);
    lua_setfield(lua, -2, "__metatable");
    lua_pushlightuserdata(lua, &protected_mark);
    lua_pushboolean(lua, true);
    lua_rawset(lua, -3);
    lua_setmetatable(lua, -2);
    lua_replace(lua, -2);
}

/* Functions in place of Lua's ----------------------------------------------------------------- */

static int script_rawset(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checkany(lua, 2);
    luaL_checkany(lua, 3);
    if (is_protected(lua, 1))
        return refuse_call(lua);
    lua_settop(lua, 3);
    lua_rawset(lua, 1);
    return 1;
}

/* As Redis: what was raised as a reply is caught as its text. */
static int script_pcall(lua_State *lua)
{
    luaL_checkany(lua, 1);
    int status = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0);
    script_vm_check(lua);
    if (status != 0 && lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        if (lua_isstring(lua, -1))
            lua_replace(lua, -2);
        else
            lua_pop(lua, 1);
    }
    lua_pushboolean(lua, status == 0);
    lua_insert(lua, 1);
    return lua_gettop(lua);
}

/* Lua's own calls the handler where the error is raised: that may be the hook that ends a script,
 * where no hook runs, and a handler could run for ever. */
static int script_xpcall(lua_State *lua)
{
    luaL_checkany(lua, 2);
    lua_settop(lua, 2);
    lua_insert(lua, 1);
    int status = lua_pcall(lua, 0, LUA_MULTRET, 0);
    script_vm_check(lua);
    if (status != 0) {
        lua_pushvalue(lua, 1);
        lua_insert(lua, -2);
        int handled = lua_pcall(lua, 1, 1, 0);
        script_vm_check(lua);
        if (handled != 0) { /* as Lua calls it */
            lua_pushliteral(lua, "error in error handling");
            lua_replace(lua, -2);
        }
    }
    lua_pushboolean(lua, status == 0);
    lua_replace(lua, 1);
    return lua_gettop(lua);
}

static int script_setmetatable(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_argcheck(lua, lua_isnil(lua, 2) || lua_istable(lua, 2), 2, "nil or table expected");
    if (is_protected(lua, 1))
        return refuse_call(lua);
    if (luaL_getmetafield(lua, 1, "__metatable"))
        return luaL_error(lua, "cannot change a protected metatable");
    lua_settop(lua, 2);
    lua_setmetatable(lua, 1);
    return 1;
}

static int script_collectgarbage(lua_State *lua)
{
    static const char *const options[] = {"collect", "count", "step", NULL};
    script_vm_check(lua);
    switch (luaL_checkoption(lua, 1, "collect", options)) {
    case 0:
        lua_pushinteger(lua, lua_gc(lua, LUA_GCCOLLECT, 0));
        break;
    case 1:
        lua_pushnumber(lua, (double)script_vm_at(lua)->bytes / 1024);
        break;
    default:
        lua_pushboolean(lua, lua_gc(lua, LUA_GCSTEP, 0));
        break;
    }
    return 1;
}

static int script_gcinfo(lua_State *lua)
{
    lua_pushinteger(lua, (lua_Integer)(script_vm_at(lua)->bytes / 1024));
    return 1;
}

/* Compiles a text: Lua does not check the bytes of what is compiled already. */
static int compile_text(lua_State *lua, const char *text, size_t size, const char *name)
{
    script_vm_check(lua);
    lua_pushstring(lua, name); /* held while it is compiled */
    if (size > 0 && text[0] == LUA_SIGNATURE[0]) {
        lua_pushnil(lua);
        lua_pushliteral(lua, "bytecode is not loaded");
        return 2;
    }
    if (script_vm_load(lua, kv_slice(text, size), name) == 0)
        return 1;
    lua_pushnil(lua);
    lua_insert(lua, -2);
    return 2;
}

static int script_loadstring(lua_State *lua)
{
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    return compile_text(lua, text, size, luaL_optstring(lua, 2, text));
}

/* load(function): it gives the text in pieces. */
static int script_load(lua_State *lua)
{
    size_t size;
    luaL_checktype(lua, 1, LUA_TFUNCTION);
    const char *name = luaL_optstring(lua, 2, "=(load)");
    lua_settop(lua, 2);
    lua_pushliteral(lua, "");
    for (;;) {
        script_vm_check(lua);
        lua_pushvalue(lua, 1);
        lua_call(lua, 0, 1);
        if (lua_isnil(lua, -1))
            break;
        if (!lua_isstring(lua, -1))
            return luaL_error(lua, "reader function must return a string");
        if (lua_objlen(lua, -1) == 0)
            break;
        lua_concat(lua, 2);
    }
    lua_pop(lua, 1);
    const char *text = lua_tolstring(lua, 3, &size);
    return compile_text(lua, text, size, name);
}

static int script_unpack(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_Number first = luaL_optnumber(lua, 2, 1);
    lua_Number last =
        lua_isnoneornil(lua, 3) ? (lua_Number)lua_objlen(lua, 1) : luaL_checknumber(lua, 3);
    if (!(first <= last))
        return 0;
    if (!(last - first < UNPACKED_MAX) || fabs(first) > 1e9 || fabs(last) > 1e9)
        return luaL_error(lua, "too many results to unpack");
    int from = (int)first, count = (int)last - from + 1;
    luaL_checkstack(lua, count, "too many results to unpack");
    for (int i = 0; i < count; i++)
        lua_rawgeti(lua, 1, from + i);
    return count;
}

/* A border of a table is no number of its items: few may make it look like 500 million. */
static void check_at_times(lua_State *lua, int i)
{
    if (i % 1024 == 0)
        script_vm_check(lua);
}

/* table.remove(table[, position]) */
static int script_remove(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    int end = (int)lua_objlen(lua, 1);
    int position = luaL_optint(lua, 2, end);
    if (position < 1 || position > end)
        return 0;
    if (is_protected(lua, 1))
        return refuse_call(lua);
    lua_rawgeti(lua, 1, position);
    for (int i = position; i < end; i++) {
        check_at_times(lua, i);
        lua_rawgeti(lua, 1, i + 1);
        lua_rawseti(lua, 1, i);
    }
    lua_pushnil(lua);
    lua_rawseti(lua, 1, end);
    return 1;
}

/* Calls the function at 2 for a key and its value, which are on the top. True: it has returned
 * something, which is then on the top. */
static bool calls_end(lua_State *lua)
{
    script_vm_check(lua); /* what is called may be no Lua */
    lua_pushvalue(lua, 2);
    lua_insert(lua, -3);
    lua_call(lua, 2, 1);
    return !lua_isnil(lua, -1);
}

static int script_foreachi(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    int end = (int)lua_objlen(lua, 1);
    for (int i = 1; i <= end; i++) {
        lua_pushinteger(lua, i);
        lua_rawgeti(lua, 1, i);
        if (calls_end(lua))
            return 1;
        lua_pop(lua, 1);
    }
    return 0;
}

static int script_foreach(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    lua_pushnil(lua);
    while (lua_next(lua, 1)) {
        lua_pushvalue(lua, -2);
        lua_insert(lua, -2);
        if (calls_end(lua))
            return 1;
        lua_pop(lua, 1);
    }
    return 0;
}

/* table.insert(table, [position,] value) */
static int script_insert(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    int end = (int)lua_objlen(lua, 1) + 1, position = end;
    if (lua_gettop(lua) == 3) {
        position = luaL_checkint(lua, 2);
        luaL_argcheck(lua, position >= 1, 2, "position out of bounds");
        for (int i = end; i > position; i--) {
            check_at_times(lua, i);
            lua_rawgeti(lua, 1, i - 1);
            lua_rawseti(lua, 1, i);
        }
    } else if (lua_gettop(lua) != 2) {
        return luaL_error(lua, "wrong number of arguments to 'insert'");
    }
    if (is_protected(lua, 1))
        return refuse_call(lua);
    lua_rawseti(lua, 1, position);
    return 0;
}

/* What sort compares by: the script's function, which is the upvalue, or nil. */
static int is_less(lua_State *lua)
{
    script_vm_check(lua);
    if (lua_isnil(lua, lua_upvalueindex(1))) {
        lua_pushboolean(lua, lua_lessthan(lua, 1, 2));
        return 1;
    }
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, 2, 1);
    return 1;
}

/* Upvalue: Lua's sort. */
static int script_sort(lua_State *lua)
{
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 2);
    if (!lua_isnil(lua, 2))
        luaL_checktype(lua, 2, LUA_TFUNCTION);
    if (lua_isnil(lua, 2) || lua_iscfunction(lua, 2)) { /* in what is Lua's the hook looks */
        lua_pushcclosure(lua, is_less, 1);
    }
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, 2, 0);
    return 0;
}

static int script_rep(lua_State *lua)
{
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    lua_Number times = luaL_checknumber(lua, 2);
    script_vm_check(lua);
    if (!(times >= 1) || size == 0) {
        lua_pushliteral(lua, "");
        return 1;
    }
    if (times * (lua_Number)size > (lua_Number)SCRIPT_MEMORY_BYTES)
        return luaL_error(lua, "not enough memory");
    luaL_Buffer out;
    luaL_buffinit(lua, &out);
    for (size_t i = 0; i < (size_t)times; i++)
        luaL_addlstring(&out, text, size);
    luaL_pushresult(&out);
    return 1;
}

/* Upvalue: a function of Lua that takes time with what is large. */
static int check_and_call(lua_State *lua)
{
    script_vm_check(lua);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, lua_gettop(lua) - 1, LUA_MULTRET);
    return lua_gettop(lua);
}

static int script_random(lua_State *lua)
{
    lua_Number drawn = (lua_Number)(nrand48(script_vm_random(lua)) % 0x7fffffff) / 0x7fffffff;
    lua_Number low = 1, high;
    switch (lua_gettop(lua)) {
    case 0:
        lua_pushnumber(lua, drawn);
        return 1;
    case 1:
        high = luaL_checkint(lua, 1);
        break;
    case 2:
        low = luaL_checkint(lua, 1);
        high = luaL_checkint(lua, 2);
        break;
    default:
        return luaL_error(lua, "wrong number of arguments");
    }
    luaL_argcheck(lua, low <= high, lua_gettop(lua), "interval is empty");
    lua_pushnumber(lua, floor(drawn * (high - low + 1)) + low);
    return 1;
}

static int script_randomseed(lua_State *lua)
{
    unsigned seed = (unsigned)luaL_checkint(lua, 1);
    unsigned short *random = script_vm_random(lua);
    random[0] = 0x330e;
    random[1] = (unsigned short)seed;
    random[2] = (unsigned short)(seed >> 16);
    return 0;
}

/* Globals ------------------------------------------------------------------------------------- */

static int refuse_unknown(lua_State *lua)
{
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      lua_isstring(lua, 2) ? lua_tostring(lua, 2) : luaL_typename(lua, 2));
}

/* Copies fields of the table at the index `from` to the one on the top. */
static void copy_fields(lua_State *lua, int from, const char *const *names)
{
    for (; *names; names++) {
        lua_getfield(lua, from, *names);
        lua_setfield(lua, -2, *names);
    }
}

/* Sets a function of the table on the top in place of Lua's, which it can call. */
static void wrap_field(lua_State *lua, const char *name, lua_CFunction function)
{
    lua_getfield(lua, -1, name);
    lua_pushcclosure(lua, function, 1);
    lua_setfield(lua, -2, name);
}

static void open_base(lua_State *lua, int globals)
{
    static const char *const names[] = {
        "assert", "error",  "getmetatable", "ipairs",   "next", "pairs",    "rawequal",
        "rawget", "select", "tonumber",     "tostring", "type", "_VERSION", NULL};
    static const luaL_Reg own[] = {
        {"rawset", script_rawset}, {"pcall", script_pcall},
        {"xpcall", script_xpcall}, {"setmetatable", script_setmetatable},
        {"gcinfo", script_gcinfo}, {"collectgarbage", script_collectgarbage},
        {"load", script_load},     {"loadstring", script_loadstring},
        {"unpack", script_unpack}, {NULL, NULL}};
    copy_fields(lua, globals, names);
    luaL_register(lua, NULL, own);
}

/* Makes the library of this name, with these functions of Lua's and these of its own, the top. */
static void begin_library(lua_State *lua, int globals, const char *name, const char *const *names,
                          const luaL_Reg *own)
{
    lua_newtable(lua);
    lua_getfield(lua, globals, name);
    lua_insert(lua, -2);
    copy_fields(lua, lua_gettop(lua) - 1, names);
    luaL_register(lua, NULL, own);
    lua_remove(lua, -2);
}

/* variables: the table that gets the library from the top, protected. */
static void end_library(lua_State *lua, int variables, const char *name)
{
    lua_sandbox_protect(lua);
    lua_setfield(lua, variables, name);
}

static void open_libraries(lua_State *lua, int globals, int variables)
{
    static const char *const of_string[] = {"byte",    "char", "format", "len", "lower",
                                            "reverse", "sub",  "upper",  NULL};
    static const char *const of_table[] = {"concat", "getn", "maxn", "sort", NULL};
    static const char *const of_math[] = {
        "abs",   "acos", "asin",  "atan", "atan2", "ceil", "cos",   "cosh", "deg",  "exp",
        "floor", "fmod", "frexp", "huge", "ldexp", "log",  "log10", "max",  "min",  "mod",
        "modf",  "pi",   "pow",   "rad",  "sin",   "sinh", "sqrt",  "tan",  "tanh", NULL};
    static const char *const of_os[] = {"clock", NULL};
    static const luaL_Reg own_string[] = {{"rep", script_rep}, {NULL, NULL}};
    static const luaL_Reg own_table[] = {{"insert", script_insert},
                                         {"remove", script_remove},
                                         {"foreach", script_foreach},
                                         {"foreachi", script_foreachi},
                                         {NULL, NULL}};
    static const luaL_Reg own_math[] = {
        {"random", script_random}, {"randomseed", script_randomseed}, {NULL, NULL}};
    static const luaL_Reg none[] = {{NULL, NULL}};
    begin_library(lua, globals, "string", of_string, own_string);
    lua_pattern_open(lua);
    wrap_field(lua, "lower", check_and_call);
    wrap_field(lua, "upper", check_and_call);
    wrap_field(lua, "reverse", check_and_call);
    wrap_field(lua, "format", check_and_call);
    /* What ("x"):upper() finds. */
    lua_pushliteral(lua, "");
    lua_getmetatable(lua, -1);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_newtable(lua);
    lua_sandbox_protect(lua);
    lua_setfield(lua, -2, "__metatable");
    lua_pop(lua, 2);
    end_library(lua, variables, "string");
    begin_library(lua, globals, "table", of_table, own_table);
    wrap_field(lua, "sort", script_sort);
    wrap_field(lua, "concat", check_and_call);
    wrap_field(lua, "maxn", check_and_call);
    end_library(lua, variables, "table");
    begin_library(lua, globals, "math", of_math, own_math);
    end_library(lua, variables, "math");
    begin_library(lua, globals, "os", of_os, none);
    end_library(lua, variables, "os");
    lua_bit_open(lua);
    end_library(lua, variables, "bit");
    lua_json_open(lua);
    end_library(lua, variables, "cjson");
    lua_redis_open(lua);
    lua_pushvalue(lua, -1);
    end_library(lua, variables, "redis");
    end_library(lua, variables, "server"); /* as Valkey calls it */
}

/* Makes the table of variables into the globals, which can be read only. */
static void open_globals(lua_State *lua, int variables)
{
    lua_pushvalue(lua, variables);
    lua_sandbox_protect(lua);
    lua_pushvalue(lua, -1);
    lua_setfield(lua, variables, "_G");
    lua_pushvalue(lua, -1);
    lua_setfield(lua, LUA_REGISTRYINDEX, SCRIPT_GLOBALS);
    lua_replace(lua, LUA_GLOBALSINDEX);
    lua_createtable(lua, 0, 1);
    lua_pushcfunction(lua, refuse_unknown);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, variables);
    lua_pushvalue(lua, variables);
    lua_setfield(lua, LUA_REGISTRYINDEX, SCRIPT_VARIABLES);
}

int lua_sandbox_open(lua_State *lua)
{
    static const lua_CFunction openers[] = {luaopen_base, luaopen_table, luaopen_string,
                                            luaopen_math, luaopen_os};
    for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++) {
        lua_pushcfunction(lua, openers[i]);
        lua_call(lua, 0, 0);
    }
    lua_settop(lua, 0);
    lua_pushvalue(lua, LUA_GLOBALSINDEX);
    lua_newtable(lua);
    open_base(lua, 1);
    open_libraries(lua, 1, 2);
    open_globals(lua, 2);
    lua_newtable(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, SCRIPT_COMPILED);
    return 0;
}

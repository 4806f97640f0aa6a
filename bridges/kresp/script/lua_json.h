/*
 * lua_json: the library `cjson`: values of Lua as JSON, and back. All memory is Lua's, and so has
 * the script's limit.
 */
#ifndef MQKV_KRESP_SCRIPT_LUA_JSON_H
#define MQKV_KRESP_SCRIPT_LUA_JSON_H

#include <lua.h>

/* Pushes the library. */
void lua_json_open(lua_State *lua);

#endif

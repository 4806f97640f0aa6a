/*
 * lua_values: replies of commands as values of Lua, and what a script returns as a reply, as Redis
 * has both.
 */
#ifndef MQKV_KRESP_SCRIPT_LUA_VALUES_H
#define MQKV_KRESP_SCRIPT_LUA_VALUES_H

#include <lua.h>

#include "bridges/kresp/protocol/resp_reply.h"

/* Pushes the reply that begins at `at`, of RESP 2 or 3; returns what is behind it: a NUL at the
 * latest. */
const char *lua_push_reply(lua_State *lua, const char *at);

/* Writes the value on the top as a reply, and pops it. resp3: the script has asked for RESP 3, so
 * that booleans stay what they are. Raises an error if it is nested too deeply. */
void lua_write_reply(lua_State *lua, struct resp_reply *reply, int resp3);

#endif

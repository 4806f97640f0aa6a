/*
 * lua_sandbox: what scripts find in a VM: Lua's functions that reach nothing outside and end, the
 * libraries of Redis, and globals that no script can change. coroutine, getfenv, setfenv and
 * newproxy, which Redis has, are left out: by them scripts of Lua 5.1 get around its limits.
 */
#ifndef MQKV_KRESP_SCRIPT_LUA_SANDBOX_H
#define MQKV_KRESP_SCRIPT_LUA_SANDBOX_H

#include <lua.h>

/* Fills a new state; called by lua_cpcall. */
int lua_sandbox_open(lua_State *lua);

/* Replaces the table on the top of the stack by one that shows the same and cannot be changed. */
void lua_sandbox_protect(lua_State *lua);

#endif

/*
 * lua_redis: the library `redis`, by which scripts call commands.
 */
#ifndef MQKV_KRESP_SCRIPT_LUA_REDIS_H
#define MQKV_KRESP_SCRIPT_LUA_REDIS_H

#include <lua.h>

/* Pushes the library. */
void lua_redis_open(lua_State *lua);

#endif

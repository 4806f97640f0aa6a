/*
 * lua_bit: the library `bit`: 32-bit numbers, bit by bit.
 */
#ifndef MQKV_KRESP_SCRIPT_LUA_BIT_H
#define MQKV_KRESP_SCRIPT_LUA_BIT_H

#include <lua.h>

/* Pushes the library. */
void lua_bit_open(lua_State *lua);

#endif

/*
 * lua_register: redis.register_function, by which a library says what its functions are.
 */
#ifndef MQKV_KRESP_SCRIPT_LUA_REGISTER_H
#define MQKV_KRESP_SCRIPT_LUA_REGISTER_H

#include <lua.h>

/* The functions of a VM in the registry, by their names, each as {function, flags}. */
#define SCRIPT_FUNCTIONS "kresp.functions"

int lua_register_function(lua_State *lua);

#endif

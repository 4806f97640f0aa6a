/*
 * lua_pattern: string.find, match, gmatch and gsub of Lua 5.1, whose own can take time without end
 * and the whole stack: these look at the clock, and have a limit of depth.
 */
#ifndef MQKV_KRESP_SCRIPT_LUA_PATTERN_H
#define MQKV_KRESP_SCRIPT_LUA_PATTERN_H

#include <lua.h>

/* Sets the four functions in the table on the top of the stack. */
void lua_pattern_open(lua_State *lua);

#endif

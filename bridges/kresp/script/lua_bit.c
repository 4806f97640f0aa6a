#include "bridges/kresp/script/lua_bit.h"

#include <lauxlib.h>
#include <math.h>
#include <stdint.h>

/* Returns the argument modulo 2^32. */
static uint32_t bits_of(lua_State *lua, int at)
{
    lua_Number number = rint(luaL_checknumber(lua, at));
    lua_Number rest = fmod(number, 4294967296.0);
    return isfinite(rest) ? (uint32_t)(int64_t)rest : 0;
}

static int push_bits(lua_State *lua, uint32_t bits)
{
    lua_pushnumber(lua, (int32_t)bits);
    return 1;
}

static int bit_to_number(lua_State *lua)
{
    return push_bits(lua, bits_of(lua, 1));
}

static int bit_not(lua_State *lua)
{
    return push_bits(lua, ~bits_of(lua, 1));
}

static int bit_and(lua_State *lua)
{
    uint32_t bits = bits_of(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--)
        bits &= bits_of(lua, i);
    return push_bits(lua, bits);
}

static int bit_or(lua_State *lua)
{
    uint32_t bits = bits_of(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--)
        bits |= bits_of(lua, i);
    return push_bits(lua, bits);
}

static int bit_xor(lua_State *lua)
{
    uint32_t bits = bits_of(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--)
        bits ^= bits_of(lua, i);
    return push_bits(lua, bits);
}

static int bit_left(lua_State *lua)
{
    return push_bits(lua, bits_of(lua, 1) << (bits_of(lua, 2) & 31));
}

static int bit_right(lua_State *lua)
{
    return push_bits(lua, bits_of(lua, 1) >> (bits_of(lua, 2) & 31));
}

/* The sign goes on to the left. */
static int bit_right_signed(lua_State *lua)
{
    uint32_t bits = bits_of(lua, 1), by = bits_of(lua, 2) & 31;
    uint32_t sign = bits >> 31 && by > 0 ? ~(UINT32_MAX >> by) : 0;
    return push_bits(lua, bits >> by | sign);
}

static uint32_t rotated(uint32_t bits, uint32_t by)
{
    return bits << (by & 31) | bits >> (-by & 31);
}

static int bit_rotate_left(lua_State *lua)
{
    return push_bits(lua, rotated(bits_of(lua, 1), bits_of(lua, 2)));
}

static int bit_rotate_right(lua_State *lua)
{
    return push_bits(lua, rotated(bits_of(lua, 1), -bits_of(lua, 2)));
}

static int bit_swap(lua_State *lua)
{
    return push_bits(lua, __builtin_bswap32(bits_of(lua, 1)));
}

/* tohex(number [, digits]): upper case if the digits are negative. */
static int bit_to_hex(lua_State *lua)
{
    uint32_t bits = bits_of(lua, 1);
    int32_t digits = lua_isnone(lua, 2) ? 8 : (int32_t)bits_of(lua, 2);
    const char *letters = digits < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
    char text[8];
    size_t size = digits < -8 || digits > 8 ? 8 : (size_t)(digits < 0 ? -digits : digits);
    for (size_t i = size; i-- > 0; bits >>= 4)
        text[i] = letters[bits & 15];
    lua_pushlstring(lua, text, size);
    return 1;
}

void lua_bit_open(lua_State *lua)
{
    static const luaL_Reg functions[] = {{"tobit", bit_to_number},
                                         {"bnot", bit_not},
                                         {"band", bit_and},
                                         {"bor", bit_or},
                                         {"bxor", bit_xor},
                                         {"lshift", bit_left},
                                         {"rshift", bit_right},
                                         {"arshift", bit_right_signed},
                                         {"rol", bit_rotate_left},
                                         {"ror", bit_rotate_right},
                                         {"bswap", bit_swap},
                                         {"tohex", bit_to_hex},
                                         {NULL, NULL}};
    lua_newtable(lua);
    luaL_register(lua, NULL, functions);
}

#include "bridges/kresp/script/lua_values.h"

#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/script/script_vm.h"

#define DEPTH_MAX 200

/* Replies as values --------------------------------------------------------------------------- */

/* Pushes {name = text}. */
static void push_named(lua_State *lua, const char *name, const char *text, size_t size)
{
    lua_createtable(lua, 0, 1);
    lua_pushlstring(lua, text, size);
    lua_setfield(lua, -2, name);
}

static const char *push_elements(lua_State *lua, const char *at, long count)
{
    lua_createtable(lua, (int)count, 0);
    for (long i = 1; i <= count; i++) {
        at = lua_push_reply(lua, at);
        lua_rawseti(lua, -2, (int)i);
    }
    return at;
}

/* A map becomes {map = {...}}; a set {set = {element = true}}. */
static const char *push_pairs(lua_State *lua, const char *at, long count, bool is_map)
{
    lua_createtable(lua, 0, 1);
    lua_createtable(lua, 0, (int)count);
    for (long i = 0; i < count; i++) {
        at = lua_push_reply(lua, at);
        if (is_map)
            at = lua_push_reply(lua, at);
        else
            lua_pushboolean(lua, true);
        lua_rawset(lua, -3);
    }
    lua_setfield(lua, -2, is_map ? "map" : "set");
    return at;
}

/* =11\r\ntxt:Some text becomes {verbatim_string = {format = "txt", string = "Some text"}}. */
static void push_verbatim(lua_State *lua, const char *text, size_t size)
{
    lua_createtable(lua, 0, 1);
    lua_createtable(lua, 0, 2);
    lua_pushlstring(lua, text + 4, size - 4);
    lua_setfield(lua, -2, "string");
    lua_pushlstring(lua, text, 3);
    lua_setfield(lua, -2, "format");
    lua_setfield(lua, -2, "verbatim_string");
}

const char *lua_push_reply(lua_State *lua, const char *at)
{
    const char *line = at + 1, *end = strstr(line, "\r\n");
    size_t size = (size_t)(end - line);
    long count = strtol(line, NULL, 10);
    luaL_checkstack(lua, 6, "a reply");
    const char *next = end + 2;
    switch (*at) {
    case '+':
        push_named(lua, "ok", line, size);
        return next;
    case '-':
        push_named(lua, "err", line, size);
        return next;
    case ':':
        lua_pushnumber(lua, (lua_Number)strtoll(line, NULL, 10));
        return next;
    case '_':
        lua_pushnil(lua);
        return next;
    case '#':
        lua_pushboolean(lua, *line == 't');
        return next;
    case ',':
        lua_createtable(lua, 0, 1);
        lua_pushnumber(lua, strtod(line, NULL));
        lua_setfield(lua, -2, "double");
        return next;
    case '$':
    case '=':
        if (count < 0) {
            lua_pushboolean(lua, false);
            return next;
        }
        if (*at == '$')
            lua_pushlstring(lua, next, (size_t)count);
        else
            push_verbatim(lua, next, (size_t)count);
        return next + count + 2;
    case '*':
        if (count < 0) {
            lua_pushboolean(lua, false);
            return next;
        }
        return push_elements(lua, next, count);
    default: /* % or ~ */
        return push_pairs(lua, next, count, *at == '%');
    }
}

/* Values as replies --------------------------------------------------------------------------- */

/* Writes a line of this type, in which line ends become blanks. */
static void write_reply_line(struct resp_reply *reply, char type, const char *text, size_t size)
{
    char *room = byte_buffer_room(&reply->bytes, size + 3);
    if (!room)
        return;
    *room++ = type;
    for (size_t i = 0; i < size; i++)
        *room++ = (char)(text[i] == '\r' || text[i] == '\n' ? ' ' : text[i]);
    memcpy(room, "\r\n", 2);
    reply->bytes.end += size + 3;
}

static void write_double(struct resp_reply *reply, double number)
{
    char text[64];
    int size = isinf(number)   ? snprintf(text, sizeof text, number > 0 ? "inf" : "-inf")
               : isnan(number) ? snprintf(text, sizeof text, "nan")
                               : snprintf(text, sizeof text, "%.17g", number);
    if (reply->protocol == 2)
        reply_bulk(reply, kv_slice(text, (size_t)size));
    else
        write_reply_line(reply, ',', text, (size_t)size);
}

static void write_value(lua_State *lua, struct resp_reply *reply, int resp3, int depth);

/* The table on the top is a map or a set. */
static void write_pairs(lua_State *lua, struct resp_reply *reply, int resp3, int depth, bool is_map)
{
    size_t count = 0;
    lua_pushnil(lua);
    while (lua_next(lua, -2) != 0) {
        count++;
        lua_pop(lua, 1);
    }
    if (is_map)
        reply_map(reply, count);
    else
        reply_set(reply, count);
    lua_pushnil(lua);
    while (lua_next(lua, -2) != 0) {
        lua_pushvalue(lua, -2);
        write_value(lua, reply, resp3, depth);
        if (is_map)
            write_value(lua, reply, resp3, depth);
        else
            lua_pop(lua, 1);
    }
}

/* Up to the first nil. */
static void write_elements(lua_State *lua, struct resp_reply *reply, int resp3, int depth)
{
    size_t count = 0;
    for (;; count++) {
        lua_rawgeti(lua, -1, (int)count + 1);
        bool ends = lua_isnil(lua, -1);
        lua_pop(lua, 1);
        if (ends)
            break;
    }
    reply_array(reply, count);
    for (size_t i = 1; i <= count; i++) {
        lua_rawgeti(lua, -1, (int)i);
        write_value(lua, reply, resp3, depth);
    }
}

/* Pushes the table's field, if it is of this type. */
static bool push_field(lua_State *lua, const char *name, int type)
{
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    if (lua_type(lua, -1) == type)
        return true;
    lua_pop(lua, 1);
    return false;
}

/* False: the table on the top has not what it takes, and nothing was written. */
static bool write_verbatim(lua_State *lua, struct resp_reply *reply)
{
    size_t size = 0, format_size = 0;
    lua_pushliteral(lua, "string");
    lua_rawget(lua, -2);
    lua_pushliteral(lua, "format");
    lua_rawget(lua, -3);
    const char *text = lua_tolstring(lua, -2, &size);
    const char *format = lua_tolstring(lua, -1, &format_size);
    bool is_whole = text && format && format_size == 3;
    if (is_whole && reply->protocol == 2) {
        reply_bulk(reply, kv_slice(text, size));
    } else if (is_whole) {
        char header[32];
        int header_size = snprintf(header, sizeof header, "=%zu\r\n", size + 4);
        byte_buffer_append(&reply->bytes, header, (size_t)header_size);
        byte_buffer_append(&reply->bytes, format, 3);
        byte_buffer_append(&reply->bytes, ":", 1);
        byte_buffer_append(&reply->bytes, text, size);
        byte_buffer_append(&reply->bytes, "\r\n", 2);
    }
    lua_pop(lua, 2);
    return is_whole;
}

/* The table on the top stays. */
static void write_table(lua_State *lua, struct resp_reply *reply, int resp3, int depth)
{
    size_t size;
    const char *text;
    if (push_field(lua, "err", LUA_TSTRING)) {
        text = lua_tolstring(lua, -1, &size);
        bool has_sign = size > 0 && text[0] == '-';
        write_reply_line(reply, '-', text + has_sign, size - has_sign);
    } else if (push_field(lua, "ok", LUA_TSTRING)) {
        text = lua_tolstring(lua, -1, &size);
        write_reply_line(reply, '+', text, size);
    } else if (push_field(lua, "double", LUA_TNUMBER)) {
        write_double(reply, lua_tonumber(lua, -1));
    } else if (push_field(lua, "map", LUA_TTABLE)) {
        write_pairs(lua, reply, resp3, depth, true);
    } else if (push_field(lua, "set", LUA_TTABLE)) {
        write_pairs(lua, reply, resp3, depth, false);
    } else if (push_field(lua, "big_number", LUA_TSTRING)) {
        text = lua_tolstring(lua, -1, &size);
        if (reply->protocol == 2)
            reply_bulk(reply, kv_slice(text, size));
        else
            write_reply_line(reply, '(', text, size);
    } else if (push_field(lua, "verbatim_string", LUA_TTABLE)) {
        if (!write_verbatim(lua, reply)) {
            lua_pop(lua, 1);
            write_elements(lua, reply, resp3, depth);
            return;
        }
    } else {
        write_elements(lua, reply, resp3, depth);
        return;
    }
    lua_pop(lua, 1);
}

/* Writes and pops the value on the top. */
static void write_value(lua_State *lua, struct resp_reply *reply, int resp3, int depth)
{
    size_t size;
    luaL_checkstack(lua, 6, "a reply");
    if (depth > DEPTH_MAX)
        luaL_error(lua, "reached lua stack limit");
    if (reply->bytes.failed)
        luaL_error(lua, "no memory for the reply");
    if (depth > 0)
        script_vm_check(lua);
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING: {
        const char *text = lua_tolstring(lua, -1, &size);
        reply_bulk(reply, kv_slice(text, size));
        break;
    }
    case LUA_TNUMBER: {
        lua_Number number = lua_tonumber(lua, -1);
        reply_integer(reply, number >= 9223372036854775808.0 || number < -9223372036854775808.0 ||
                                     isnan(number)
                                 ? INT64_MIN
                                 : (int64_t)number);
        break;
    }
    case LUA_TBOOLEAN:
        if (resp3 && reply->protocol == 3)
            write_reply_line(reply, '#', lua_toboolean(lua, -1) ? "t" : "f", 1);
        else if (lua_toboolean(lua, -1) || resp3)
            reply_integer(reply, lua_toboolean(lua, -1));
        else
            reply_null(reply);
        break;
    case LUA_TTABLE:
        write_table(lua, reply, resp3, depth + 1);
        break;
    default:
        reply_null(reply);
    }
    lua_pop(lua, 1);
}

void lua_write_reply(lua_State *lua, struct resp_reply *reply, int resp3)
{
    write_value(lua, reply, resp3, 0);
}

#include "bridges/kresp/script/lua_json.h"

#include <ctype.h>
#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/script/script_vm.h"

#define DEPTH_MAX 1000

/* An array may have twice as many holes as elements, once it is longer than this. */
#define SPARSE_FROM  10
#define SPARSE_RATIO 2

#define FIRST_TEXT_BYTES 256

/* Encoding ------------------------------------------------------------------------------------ */

/* The text so far: full strings lie on the stack of `lua`, since luaL_Buffer cannot be used while
 * others use the stack. So the text is a userdata, at index 2, that grows. */
struct json_text {
    lua_State *lua;
    char *bytes;
    size_t size, capacity;
    unsigned steps;
};

static char *json_room(struct json_text *text, size_t more)
{
    if (text->capacity - text->size < more) {
        size_t capacity = (text->capacity + more) * 2;
        char *bytes = lua_newuserdata(text->lua, capacity);
        if (text->size > 0)
            memcpy(bytes, text->bytes, text->size);
        lua_replace(text->lua, 2);
        text->bytes = bytes;
        text->capacity = capacity;
    }
    return text->bytes + text->size;
}

static void json_add(struct json_text *text, const char *bytes, size_t size)
{
    memcpy(json_room(text, size), bytes, size);
    text->size += size;
}

static void json_add_string(struct json_text *text, const char *bytes, size_t size)
{
    static const char names[] = "\"\\/\b\f\n\r\t", letters[] = "\"\\/bfnrt";
    char *room = json_room(text, size * 6 + 2), *at = room;
    *at++ = '"';
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)bytes[i];
        const char *name = c != '\0' ? strchr(names, c) : NULL;
        if (name) {
            *at++ = '\\';
            *at++ = letters[name - names];
        } else if (c < 32 || c == 127) {
            at += sprintf(at, "\\u%04x", c);
        } else {
            *at++ = (char)c;
        }
    }
    *at++ = '"';
    text->size += (size_t)(at - room);
}

static void json_add_number(struct json_text *text, lua_Number number, bool quoted)
{
    char digits[64];
    if (!isfinite(number))
        luaL_error(text->lua, "Cannot serialise number: must not be NaN or Inf");
    int size = snprintf(digits, sizeof digits, quoted ? "\"%.14g\"" : "%.14g", number);
    json_add(text, digits, (size_t)size);
}

static void encode_json_value(struct json_text *text, int depth);

/* Returns the number of elements if the table on the top is an array, or -1. */
static int64_t array_length(struct json_text *text)
{
    lua_State *lua = text->lua;
    int64_t largest = 0, count = 0;
    script_vm_check(lua); /* to pass over a table takes time though it has no elements */
    lua_pushnil(lua);
    while (lua_next(lua, -2) != 0) {
        if (count % 1024 == 1023)
            script_vm_check(lua);
        lua_Number key = lua_type(lua, -2) == LUA_TNUMBER ? lua_tonumber(lua, -2) : 0;
        if (!(key >= 1 && key <= 1e9 && floor(key) == key)) {
            lua_pop(lua, 2);
            return -1;
        }
        if ((int64_t)key > largest)
            largest = (int64_t)key;
        count++;
        lua_pop(lua, 1);
    }
    if (largest > SPARSE_FROM && largest > count * SPARSE_RATIO)
        luaL_error(lua, "Cannot serialise table: excessively sparse array");
    return count > 0 ? largest : -1;
}

static void encode_json_array(struct json_text *text, int64_t count, int depth)
{
    json_add(text, "[", 1);
    for (int64_t i = 1; i <= count; i++) {
        if (i > 1)
            json_add(text, ",", 1);
        lua_rawgeti(text->lua, -1, (int)i);
        encode_json_value(text, depth);
        lua_pop(text->lua, 1);
    }
    json_add(text, "]", 1);
}

static void encode_json_object(struct json_text *text, int depth)
{
    lua_State *lua = text->lua;
    bool is_first = true;
    json_add(text, "{", 1);
    lua_pushnil(lua);
    while (lua_next(lua, -2) != 0) {
        size_t size;
        if (!is_first)
            json_add(text, ",", 1);
        is_first = false;
        if (lua_type(lua, -2) == LUA_TNUMBER) {
            json_add_number(text, lua_tonumber(lua, -2), true);
        } else if (lua_type(lua, -2) == LUA_TSTRING) {
            const char *key = lua_tolstring(lua, -2, &size);
            json_add_string(text, key, size);
        } else {
            luaL_error(lua, "Cannot serialise %s: table key must be a number or string",
                       luaL_typename(lua, -2));
        }
        json_add(text, ":", 1);
        encode_json_value(text, depth);
        lua_pop(lua, 1);
    }
    json_add(text, "}", 1);
}

/* The value on the top. */
static void encode_json_value(struct json_text *text, int depth)
{
    lua_State *lua = text->lua;
    size_t size;
    if (++text->steps % 1024 == 0)
        script_vm_check(lua);
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING: {
        const char *bytes = lua_tolstring(lua, -1, &size);
        json_add_string(text, bytes, size);
        return;
    }
    case LUA_TNUMBER:
        json_add_number(text, lua_tonumber(lua, -1), false);
        return;
    case LUA_TBOOLEAN:
        if (lua_toboolean(lua, -1))
            json_add(text, "true", 4);
        else
            json_add(text, "false", 5);
        return;
    case LUA_TNIL:
        json_add(text, "null", 4);
        return;
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(lua, -1))
            break;
        json_add(text, "null", 4);
        return;
    case LUA_TTABLE: {
        if (++depth > DEPTH_MAX)
            luaL_error(lua, "Cannot serialise, excessive nesting (%d)", depth);
        luaL_checkstack(lua, 6, "JSON");
        int64_t count = array_length(text);
        if (count > 0)
            encode_json_array(text, count, depth);
        else
            encode_json_object(text, depth);
        return;
    }
    default:
        break;
    }
    luaL_error(lua, "Cannot serialise %s: type not supported", luaL_typename(lua, -1));
}

static int json_encode(lua_State *lua)
{
    struct json_text text = {.lua = lua, .capacity = FIRST_TEXT_BYTES};
    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    script_vm_check(lua);
    text.bytes = lua_newuserdata(lua, FIRST_TEXT_BYTES);
    lua_pushvalue(lua, 1);
    encode_json_value(&text, 0);
    lua_pushlstring(lua, text.bytes, text.size);
    return 1;
}

/* Decoding ------------------------------------------------------------------------------------ */

struct json_parse {
    lua_State *lua;
    const char *text, *at, *end;
    unsigned steps;
};

static bool begins_with(const struct json_parse *parse, const char *word)
{
    size_t size = strlen(word);
    return (size_t)(parse->end - parse->at) >= size && memcmp(parse->at, word, size) == 0;
}

static bool is_json_number(const struct json_parse *parse)
{
    return parse->at < parse->end && (isdigit((unsigned char)*parse->at) || *parse->at == '-');
}

/* The name of what stands here. */
static const char *json_token(const struct json_parse *parse)
{
    static const char signs[] = "{}[]:,\"";
    static const char *const names[] = {"T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END",
                                        "T_COLON",     "T_COMMA",   "T_STRING"};
    if (parse->at == parse->end)
        return "T_END";
    const char *sign = *parse->at != '\0' ? strchr(signs, *parse->at) : NULL;
    if (sign)
        return names[sign - signs];
    if (begins_with(parse, "true") || begins_with(parse, "false"))
        return "T_BOOLEAN";
    if (begins_with(parse, "null"))
        return "T_NULL";
    return is_json_number(parse) ? "T_NUMBER" : "invalid token";
}

static void fail_json(const struct json_parse *parse, const char *expected)
{
    luaL_error(parse->lua, "Expected %s but found %s at character %d", expected, json_token(parse),
               (int)(parse->at - parse->text) + 1);
}

static void skip_json_blanks(struct json_parse *parse)
{
    while (parse->at < parse->end && *parse->at != '\0' && strchr(" \t\r\n", *parse->at))
        parse->at++;
}

/* Reads four digits at `at`; -1: they are none. */
static int json_hex(const struct json_parse *parse, const char *at)
{
    int code = 0;
    if (parse->end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = (char)tolower((unsigned char)at[i]);
        if (!isxdigit((unsigned char)c))
            return -1;
        code = code * 16 + (c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return code;
}

/* Adds the character of this code as UTF-8. */
static void add_utf8(luaL_Buffer *out, unsigned code)
{
    if (code < 0x80) {
        luaL_addchar(out, (char)code);
        return;
    }
    if (code < 0x800) {
        luaL_addchar(out, (char)(0xc0 | code >> 6));
    } else {
        if (code < 0x10000) {
            luaL_addchar(out, (char)(0xe0 | code >> 12));
        } else {
            luaL_addchar(out, (char)(0xf0 | code >> 18));
            luaL_addchar(out, (char)(0x80 | (code >> 12 & 0x3f)));
        }
        luaL_addchar(out, (char)(0x80 | (code >> 6 & 0x3f)));
    }
    luaL_addchar(out, (char)(0x80 | (code & 0x3f)));
}

static void fail_json_escape(const struct json_parse *parse, const char *at)
{
    luaL_error(parse->lua, "Expected value but found invalid escape code at character %d",
               (int)(at - parse->text) + 1);
}

/* at: behind the \u; returns what is behind the character. */
static const char *decode_unicode(const struct json_parse *parse, luaL_Buffer *out, const char *at)
{
    int code = json_hex(parse, at);
    if (code < 0 || (code & 0xfc00) == 0xdc00)
        fail_json_escape(parse, at - 2);
    at += 4;
    if ((code & 0xfc00) == 0xd800) {
        int low =
            parse->end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? json_hex(parse, at + 2) : -1;
        if (low < 0 || (low & 0xfc00) != 0xdc00)
            fail_json_escape(parse, at - 6);
        code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
        at += 6;
    }
    add_utf8(out, (unsigned)code);
    return at;
}

/* Pushes the string that begins here. */
static void decode_json_string(struct json_parse *parse)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    luaL_Buffer out;
    luaL_buffinit(parse->lua, &out);
    const char *at = parse->at + 1;
    while (at < parse->end && *at != '"') {
        if (*at != '\\') {
            luaL_addchar(&out, *at++);
            continue;
        }
        if (++at == parse->end)
            break;
        const char *letter = *at != '\0' ? strchr(letters, *at) : NULL;
        if (*at == 'u') {
            at = decode_unicode(parse, &out, at + 1);
            continue;
        }
        if (letter)
            luaL_addchar(&out, values[letter - letters]);
        else
            fail_json_escape(parse, at - 1);
        at++;
    }
    if (at == parse->end)
        luaL_error(parse->lua, "Expected value but found unexpected end of string at character %d",
                   (int)(at - parse->text) + 1);
    luaL_pushresult(&out);
    parse->at = at + 1;
}

static void decode_json_value(struct json_parse *parse, int depth);

static void decode_json_array(struct json_parse *parse, int depth)
{
    lua_newtable(parse->lua);
    parse->at++;
    skip_json_blanks(parse);
    if (parse->at < parse->end && *parse->at == ']') {
        parse->at++;
        return;
    }
    for (int i = 1;; i++) {
        decode_json_value(parse, depth);
        lua_rawseti(parse->lua, -2, i);
        skip_json_blanks(parse);
        if (parse->at == parse->end || (*parse->at != ',' && *parse->at != ']'))
            fail_json(parse, "comma or array end");
        if (*parse->at++ == ']')
            return;
    }
}

static void decode_json_object(struct json_parse *parse, int depth)
{
    lua_newtable(parse->lua);
    parse->at++;
    skip_json_blanks(parse);
    if (parse->at < parse->end && *parse->at == '}') {
        parse->at++;
        return;
    }
    for (;;) {
        skip_json_blanks(parse);
        if (parse->at == parse->end || *parse->at != '"')
            fail_json(parse, "object key string");
        decode_json_string(parse);
        skip_json_blanks(parse);
        if (parse->at == parse->end || *parse->at != ':')
            fail_json(parse, "colon");
        parse->at++;
        decode_json_value(parse, depth);
        lua_rawset(parse->lua, -3);
        skip_json_blanks(parse);
        if (parse->at == parse->end || (*parse->at != ',' && *parse->at != '}'))
            fail_json(parse, "comma or object end");
        if (*parse->at++ == '}')
            return;
    }
}

/* A number as strtod reads it, infinities and NaN among them. The text ends with a NUL. */
static void decode_json_number(struct json_parse *parse)
{
    char *end;
    double number = strtod(parse->at, &end);
    if (end == parse->at && is_json_number(parse))
        luaL_error(parse->lua, "Expected value but found invalid number at character %d",
                   (int)(parse->at - parse->text) + 1);
    if (end == parse->at)
        fail_json(parse, "value");
    lua_pushnumber(parse->lua, number);
    parse->at = end;
}

/* Pushes the value. */
static void decode_json_value(struct json_parse *parse, int depth)
{
    lua_State *lua = parse->lua;
    if (++parse->steps % 1024 == 0)
        script_vm_check(lua);
    skip_json_blanks(parse);
    luaL_checkstack(lua, LUA_MINSTACK, "JSON"); /* a buffer has several pieces there */
    char first = parse->at < parse->end ? *parse->at : '\0';
    if ((first == '[' || first == '{') && ++depth > DEPTH_MAX)
        luaL_error(lua, "Found too many nested data structures (%d) at character %d", depth,
                   (int)(parse->at - parse->text) + 1);
    if (first == '"') {
        decode_json_string(parse);
    } else if (first == '[') {
        decode_json_array(parse, depth);
    } else if (first == '{') {
        decode_json_object(parse, depth);
    } else if (begins_with(parse, "true") || begins_with(parse, "false")) {
        lua_pushboolean(lua, first == 't');
        parse->at += first == 't' ? 4 : 5;
    } else if (begins_with(parse, "null")) {
        lua_pushlightuserdata(lua, NULL);
        parse->at += 4;
    } else if (parse->at == parse->end) {
        fail_json(parse, "value");
    } else {
        decode_json_number(parse);
    }
}

static int json_decode(lua_State *lua)
{
    size_t size;
    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    script_vm_check(lua);
    const char *text = luaL_checklstring(lua, 1, &size);
    struct json_parse parse = {.lua = lua, .text = text, .at = text, .end = text + size};
    if (size >= 2 && (text[0] == '\0' || text[1] == '\0'))
        return luaL_error(lua, "JSON parser does not support UTF-16 or UTF-32");
    decode_json_value(&parse, 0);
    skip_json_blanks(&parse);
    if (parse.at != parse.end)
        fail_json(&parse, "the end");
    return 1;
}

/* cjson.encode_keep_buffer: the text has no memory of its own here. */
static int json_keep_buffer(lua_State *lua)
{
    lua_pushboolean(lua, lua_isnone(lua, 1) || lua_toboolean(lua, 1));
    return 1;
}

void lua_json_open(lua_State *lua)
{
    static const luaL_Reg functions[] = {{"encode", json_encode},
                                         {"decode", json_decode},
                                         {"encode_keep_buffer", json_keep_buffer},
                                         {NULL, NULL}};
    lua_newtable(lua);
    luaL_register(lua, NULL, functions);
    lua_pushlightuserdata(lua, NULL);
    lua_setfield(lua, -2, "null");
    lua_pushliteral(lua, "cjson");
    lua_setfield(lua, -2, "_NAME");
}

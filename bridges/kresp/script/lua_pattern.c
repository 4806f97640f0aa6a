#include "bridges/kresp/script/lua_pattern.h"

#include <ctype.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "common/assert/assert.h"
#include "bridges/kresp/script/script_vm.h"

#define CAPTURES_MAX 32
#define DEPTH_MAX    200
#define STEPS        1024u /* between two looks at the clock */

/* Sizes of a capture that has none. */
enum { CAPTURE_OPEN = -1, CAPTURE_POSITION = -2 };

struct match_state {
    lua_State *lua;
    const char *subject, *subject_end, *pattern_end;
    unsigned steps;
    int depth, captures;
    struct {
        const char *start;
        ptrdiff_t size;
    } capture[CAPTURES_MAX];
};

static const char *match_from(struct match_state *match, const char *at, const char *item);

static void count_step(struct match_state *match)
{
    if (++match->steps < STEPS)
        return;
    match->steps = 0;
    script_vm_check(match->lua);
}

/* An item of many characters was read, in a set for instance. */
static void count_item(struct match_state *match, const char *item, const char *end)
{
    match->steps += (unsigned)((end - item) / 16);
}

/* Single characters --------------------------------------------------------------------------- */

/* Returns what is behind the single-character item that begins here: a character, %x or a set. */
static const char *item_end(struct match_state *match, const char *item)
{
    const char *set = item;
    char first = *item++;
    if (first == '%') {
        if (item == match->pattern_end)
            luaL_error(match->lua, "malformed pattern (ends with '%%')");
        return item + 1;
    }
    if (first != '[')
        return item;
    if (item < match->pattern_end && *item == '^')
        item++;
    /* A ] that comes first is one of the set. */
    for (bool is_first = true;; is_first = false) {
        if (item >= match->pattern_end)
            luaL_error(match->lua, "malformed pattern (missing ']')");
        if (*item == ']' && !is_first) {
            count_item(match, set, item);
            return item + 1;
        }
        item += *item == '%' ? 2 : 1;
    }
}

static bool is_of_class(int c, int class)
{
    bool holds;
    switch (tolower(class)) {
    case 'a':
        holds = isalpha(c);
        break;
    case 'c':
        holds = iscntrl(c);
        break;
    case 'd':
        holds = isdigit(c);
        break;
    case 'l':
        holds = islower(c);
        break;
    case 'p':
        holds = ispunct(c);
        break;
    case 's':
        holds = isspace(c);
        break;
    case 'u':
        holds = isupper(c);
        break;
    case 'w':
        holds = isalnum(c);
        break;
    case 'x':
        holds = isxdigit(c);
        break;
    case 'z':
        holds = c == 0;
        break;
    default:
        return class == c;
    }
    return isupper(class) ? !holds : holds;
}

/* set: its [; end: its ]. */
static bool is_in_set(int c, const char *set, const char *end)
{
    const unsigned char *at = (const unsigned char *)set + 1;
    const unsigned char *last = (const unsigned char *)end;
    bool wanted = *at != '^';
    at += !wanted;
    while (at < last) {
        if (*at == '%') {
            if (is_of_class(c, at[1]))
                return wanted;
            at += 2;
        } else if (at[1] == '-' && at + 2 < last) {
            if (at[0] <= c && c <= at[2])
                return wanted;
            at += 3;
        } else if (*at++ == c) {
            return wanted;
        }
    }
    return !wanted;
}

/* The item ends before `end`. */
static bool is_single_match(struct match_state *match, const char *at, const char *item,
                            const char *end)
{
    if (at >= match->subject_end)
        return false;
    int c = (unsigned char)*at;
    switch (*item) {
    case '.':
        return true;
    case '%':
        return is_of_class(c, (unsigned char)item[1]);
    case '[':
        count_item(match, item, end);
        return is_in_set(c, item, end - 1);
    default:
        return (unsigned char)*item == c;
    }
}

/* Items that are more ------------------------------------------------------------------------- */

/* %bxy: the x at `at` and everything up to its y. */
static const char *match_balanced(struct match_state *match, const char *at, const char *item)
{
    if (match->pattern_end - item < 2)
        luaL_error(match->lua, "unbalanced pattern");
    if (at >= match->subject_end || *at != item[0])
        return NULL;
    size_t open = 1;
    for (const char *next = at + 1; next < match->subject_end; next++) {
        count_step(match);
        if (*next == item[1]) {
            if (--open == 0)
                return next + 1;
        } else if (*next == item[0]) {
            open++;
        }
    }
    return NULL;
}

/* As many as there are, and fewer if the rest does not match. */
static const char *match_most(struct match_state *match, const char *at, const char *item,
                              const char *end)
{
    ptrdiff_t count = 0;
    while (is_single_match(match, at + count, item, end)) {
        count_step(match);
        count++;
    }
    for (; count >= 0; count--) {
        const char *matched = match_from(match, at + count, end + 1);
        if (matched)
            return matched;
    }
    return NULL;
}

/* As few as the rest needs. */
static const char *match_least(struct match_state *match, const char *at, const char *item,
                               const char *end)
{
    for (;; at++) {
        const char *matched = match_from(match, at, end + 1);
        if (matched || !is_single_match(match, at, item, end))
            return matched;
    }
}

static const char *match_opened(struct match_state *match, const char *at, const char *rest,
                                ptrdiff_t size)
{
    if (match->captures == CAPTURES_MAX)
        luaL_error(match->lua, "too many captures");
    match->capture[match->captures].start = at;
    match->capture[match->captures++].size = size;
    const char *matched = match_from(match, at, rest);
    if (!matched)
        match->captures--;
    return matched;
}

static const char *match_closed(struct match_state *match, const char *at, const char *rest)
{
    int i = match->captures - 1;
    while (i >= 0 && match->capture[i].size != CAPTURE_OPEN)
        i--;
    if (i < 0)
        luaL_error(match->lua, "invalid pattern capture");
    match->capture[i].size = at - match->capture[i].start;
    const char *matched = match_from(match, at, rest);
    if (!matched)
        match->capture[i].size = CAPTURE_OPEN;
    return matched;
}

static const char *fail_capture(const struct match_state *match)
{
    luaL_error(match->lua, "invalid capture index");
    return NULL;
}

/* %1: what a capture has. */
static const char *match_again(struct match_state *match, const char *at, char digit)
{
    int i = digit - '1';
    if (i < 0 || i >= match->captures || match->capture[i].size < 0)
        return fail_capture(match);
    size_t size = (size_t)match->capture[i].size;
    match->steps += (unsigned)(size / 16);
    return (size_t)(match->subject_end - at) >= size &&
                   memcmp(match->capture[i].start, at, size) == 0
               ? at + size
               : NULL;
}

/* %f[set]: where the set begins. */
static bool is_frontier(struct match_state *match, const char *at, const char *set)
{
    if (set >= match->pattern_end || *set != '[')
        luaL_error(match->lua, "missing '[' after '%%f' in pattern");
    const char *end = item_end(match, set);
    int before = at == match->subject ? 0 : (unsigned char)at[-1];
    int here = at < match->subject_end ? (unsigned char)*at : 0;
    return !is_in_set(before, set, end - 1) && is_in_set(here, set, end - 1);
}

/* Returns the end of the match of this part of the pattern, or NULL. */
static const char *match_items(struct match_state *match, const char *at, const char *item)
{
    while (item < match->pattern_end) {
        count_step(match);
        if (*item == '(') {
            bool is_position = item + 1 < match->pattern_end && item[1] == ')';
            return match_opened(match, at, item + (is_position ? 2 : 1),
                                is_position ? CAPTURE_POSITION : CAPTURE_OPEN);
        }
        if (*item == ')')
            return match_closed(match, at, item + 1);
        if (*item == '$' && item + 1 == match->pattern_end)
            return at == match->subject_end ? at : NULL;
        if (*item == '%' && item + 1 < match->pattern_end) {
            if (item[1] == 'b') {
                at = match_balanced(match, at, item + 2);
                item += 4;
            } else if (item[1] == 'f') {
                at = is_frontier(match, at, item + 2) ? at : NULL;
                item = item_end(match, item + 2);
            } else if (isdigit((unsigned char)item[1])) {
                at = match_again(match, at, item[1]);
                item += 2;
            } else {
                goto single;
            }
            if (!at)
                return NULL;
            continue;
        }
    single:;
        const char *end = item_end(match, item);
        char many = end < match->pattern_end ? *end : '\0';
        bool is_one = is_single_match(match, at, item, end);
        if (many == '*')
            return match_most(match, at, item, end);
        if (many == '+')
            return is_one ? match_most(match, at + 1, item, end) : NULL;
        if (many == '-')
            return match_least(match, at, item, end);
        if (many == '?') {
            const char *matched = is_one ? match_from(match, at + 1, end + 1) : NULL;
            if (matched)
                return matched;
            item = end + 1;
            continue;
        }
        if (!is_one)
            return NULL;
        at++;
        item = end;
    }
    return at;
}

static const char *match_from(struct match_state *match, const char *at, const char *item)
{
    count_step(match);
    if (++match->depth > DEPTH_MAX)
        luaL_error(match->lua, "pattern too complex");
    const char *matched = match_items(match, at, item);
    match->depth--;
    return matched;
}

/* Captures ------------------------------------------------------------------------------------ */

/* Pushes capture i; if there is none at all, the whole match is the first. */
static void push_capture(struct match_state *match, int i, const char *start, const char *end)
{
    if (i >= match->captures) {
        if (i != 0)
            luaL_error(match->lua, "invalid capture index");
        lua_pushlstring(match->lua, start, (size_t)(end - start));
        return;
    }
    ptrdiff_t size = match->capture[i].size;
    if (size == CAPTURE_OPEN)
        luaL_error(match->lua, "unfinished capture");
    if (size == CAPTURE_POSITION)
        lua_pushinteger(match->lua, match->capture[i].start - match->subject + 1);
    else
        lua_pushlstring(match->lua, match->capture[i].start, (size_t)size);
}

/* Returns how many were pushed. whole: the match, if there is no capture. */
static int push_captures(struct match_state *match, const char *start, const char *end, bool whole)
{
    int count = match->captures == 0 && whole ? 1 : match->captures;
    luaL_checkstack(match->lua, count, "too many captures");
    for (int i = 0; i < count; i++)
        push_capture(match, i, start, end);
    return count;
}

static struct match_state begin_match(lua_State *lua, const char *subject, size_t subject_size,
                                      const char *pattern, size_t pattern_size)
{
    KV_ASSERT(subject && pattern);
    return (struct match_state){.lua = lua,
                                .subject = subject,
                                .subject_end = subject + subject_size,
                                .pattern_end = pattern + pattern_size};
}

static const char *match_at(struct match_state *match, const char *at, const char *pattern)
{
    match->captures = match->depth = 0;
    return match_from(match, at, pattern);
}

/* The functions ------------------------------------------------------------------------------- */

static bool has_specials(const char *pattern, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (pattern[i] != '\0' && strchr("^$*+?.([%-", pattern[i]))
            return true;
    return false;
}

/* Returns where the argument says to begin, from 0; counted from the end if negative. */
static size_t start_of(lua_State *lua, size_t size)
{
    lua_Integer from = luaL_optinteger(lua, 3, 1);
    if (from < 0)
        from += (lua_Integer)size + 1;
    if (from < 1)
        return 0;
    return (size_t)from - 1 > size ? size : (size_t)from - 1;
}

static int find_or_match(lua_State *lua, bool finds)
{
    size_t size, pattern_size;
    const char *subject = luaL_checklstring(lua, 1, &size);
    const char *pattern = luaL_checklstring(lua, 2, &pattern_size);
    const char *at = subject + start_of(lua, size);
    script_vm_check(lua);
    if (finds && (lua_toboolean(lua, 4) || !has_specials(pattern, pattern_size))) {
        const char *found = pattern_size == 0
                                ? at
                                : memmem(at, size - (size_t)(at - subject), pattern, pattern_size);
        if (!found) {
            lua_pushnil(lua);
            return 1;
        }
        lua_pushinteger(lua, found - subject + 1);
        lua_pushinteger(lua, found - subject + (lua_Integer)pattern_size);
        return 2;
    }
    struct match_state match = begin_match(lua, subject, size, pattern, pattern_size);
    bool anchored = pattern_size > 0 && *pattern == '^';
    pattern += anchored;
    do {
        const char *end = match_at(&match, at, pattern);
        if (end && finds) {
            lua_pushinteger(lua, at - subject + 1);
            lua_pushinteger(lua, end - subject);
            return push_captures(&match, at, end, false) + 2;
        }
        if (end)
            return push_captures(&match, at, end, true);
    } while (at++ < match.subject_end && !anchored);
    lua_pushnil(lua);
    return 1;
}

static int script_find(lua_State *lua)
{
    return find_or_match(lua, true);
}

static int script_match(lua_State *lua)
{
    return find_or_match(lua, false);
}

/* Upvalues: subject, pattern, where to go on. */
static int next_of_gmatch(lua_State *lua)
{
    size_t size, pattern_size;
    const char *subject = lua_tolstring(lua, lua_upvalueindex(1), &size);
    const char *pattern = lua_tolstring(lua, lua_upvalueindex(2), &pattern_size);
    struct match_state match = begin_match(lua, subject, size, pattern, pattern_size);
    const char *at = subject + lua_tointeger(lua, lua_upvalueindex(3));
    for (; at <= match.subject_end; at++) {
        const char *end = match_at(&match, at, pattern);
        if (!end)
            continue;
        lua_pushinteger(lua, end - subject + (end == at));
        lua_replace(lua, lua_upvalueindex(3));
        return push_captures(&match, at, end, true);
    }
    return 0;
}

static int script_gmatch(lua_State *lua)
{
    luaL_checkstring(lua, 1);
    luaL_checkstring(lua, 2);
    lua_settop(lua, 2);
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, next_of_gmatch, 3);
    return 1;
}

/* Adds the replacement string, in which %0 to %9 stand for captures. */
static void add_replacement(struct match_state *match, luaL_Buffer *out, const char *start,
                            const char *end)
{
    size_t size;
    const char *text = luaL_checklstring(match->lua, 3, &size);
    for (size_t i = 0; i < size; i++) {
        count_step(match);
        if (text[i] != '%') {
            luaL_addchar(out, text[i]);
        } else if (++i == size || !isdigit((unsigned char)text[i])) {
            luaL_addchar(out, i == size ? '\0' : text[i]);
        } else if (text[i] == '0') {
            luaL_addlstring(out, start, (size_t)(end - start));
        } else {
            push_capture(match, text[i] - '1', start, end);
            luaL_addvalue(out);
        }
    }
}

/* Adds what stands for the match: of a string, a table or a function. */
static void add_substitute(struct match_state *match, luaL_Buffer *out, const char *start,
                           const char *end)
{
    lua_State *lua = match->lua;
    int type = lua_type(lua, 3);
    if (type == LUA_TSTRING || type == LUA_TNUMBER) {
        add_replacement(match, out, start, end);
        return;
    }
    if (type == LUA_TFUNCTION) {
        lua_pushvalue(lua, 3);
        lua_call(lua, push_captures(match, start, end, true), 1);
    } else {
        push_capture(match, 0, start, end);
        lua_gettable(lua, 3);
    }
    if (!lua_toboolean(lua, -1)) {
        lua_pop(lua, 1);
        lua_pushlstring(lua, start, (size_t)(end - start));
    } else if (!lua_isstring(lua, -1)) {
        luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
    }
    luaL_addvalue(out);
}

static int script_gsub(lua_State *lua)
{
    size_t size, pattern_size;
    const char *subject = luaL_checklstring(lua, 1, &size);
    const char *pattern = luaL_checklstring(lua, 2, &pattern_size);
    int type = lua_type(lua, 3);
    luaL_argcheck(lua,
                  type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                      type == LUA_TTABLE,
                  3, "string/function/table expected");
    lua_Integer most = luaL_optinteger(lua, 4, (lua_Integer)size + 1), done = 0;
    struct match_state match = begin_match(lua, subject, size, pattern, pattern_size);
    bool anchored = pattern_size > 0 && *pattern == '^';
    pattern += anchored;
    luaL_Buffer out;
    luaL_buffinit(lua, &out);
    const char *at = subject;
    while (done < most) {
        const char *end = match_at(&match, at, pattern);
        if (end) {
            done++;
            add_substitute(&match, &out, at, end);
        }
        if (end && end > at)
            at = end;
        else if (at < match.subject_end)
            luaL_addlstring(&out, at++, 1);
        else
            break;
        if (anchored)
            break;
    }
    luaL_addlstring(&out, at, (size_t)(match.subject_end - at));
    luaL_pushresult(&out);
    lua_pushinteger(lua, done);
    return 2;
}

void lua_pattern_open(lua_State *lua)
{
    static const luaL_Reg functions[] = {{"find", script_find},     {"match", script_match},
                                         {"gmatch", script_gmatch}, {"gfind", script_gmatch},
                                         {"gsub", script_gsub},     {NULL, NULL}};
    luaL_register(lua, NULL, functions);
}

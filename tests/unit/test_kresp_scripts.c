#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/script/script_cache.h"
#include "bridges/kresp/script/script_function.h"
#include "bridges/kresp/script/script_library.h"
#include "bridges/kresp/script/script_run.h"
#include "bridges/kresp/script/script_thread.h"
#include "bridges/kresp/session/redis_session.h"
#include "common/time/clock.h"
#include "tests/support/test_suite.h"

/* A script outside of a transaction: all but redis.call works. */
static struct {
    struct redis_user user;
    struct redis_session session;
    struct thread_scripts scripts;
    struct batch_memory memory;
    struct redis_job job;
} lone;

static void begin_scripts(void)
{
    memset(&lone, 0, sizeof lone);
    lone.session.user = &lone.user;
    lone.session.reply.protocol = 2;
    lone.memory.scripts = &lone.scripts;
    lone.job = (struct redis_job){.session = &lone.session, .memory = &lone.memory};
}

static void end_scripts(void)
{
    script_thread_discard(&lone.job);
    script_flush_texts();
    script_function_flush(&lone.job);
    byte_buffer_free(&lone.session.reply.bytes);
    batch_memory_free(&lone.memory);
}

/* Returns the reply, or the error with a sign before it. */
static const char *run_text(const char *text)
{
    static char reply[4096];
    static const struct script_arguments none;
    char hex[SHA1_HEX_BYTES];
    struct kv_slice slice = kv_slice_from_string(text);
    lone.job.error = NULL;
    lone.session.reply.bytes.start = lone.session.reply.bytes.end = 0;
    sha1_hex(slice, hex);
    ck_assert(script_run(&lone.job, hex, slice, &none));
    struct kv_slice given = byte_buffer_slice(&lone.session.reply.bytes);
    if (lone.job.error)
        snprintf(reply, sizeof reply, "-%s", lone.job.error);
    else
        snprintf(reply, sizeof reply, "%.*s", (int)given.size, (const char *)given.data);
    return reply;
}

static void check_reply(const char *text, const char *expected)
{
    ck_assert_str_eq(run_text(text), expected);
}

static void check_has(const char *text, const char *part)
{
    const char *reply = run_text(text);
    ck_assert_msg(strstr(reply, part) != NULL, "%s: %s", text, reply);
}

START_TEST(values_become_replies)
{
    check_reply("return 3.9", ":3\r\n");
    check_reply("return {1, 'a', {false, true}, nil, 2}",
                "*3\r\n:1\r\n$1\r\na\r\n*2\r\n$-1\r\n:1\r\n");
    check_reply("return {ok = 'FINE'}", "+FINE\r\n");
    check_reply("return {err = 'ERR no\\r\\n'}", "-ERR no  \r\n");
    check_reply("return 1/0", ":-9223372036854775808\r\n");
    check_has("local t = {} t[1] = t return t", "reached lua stack limit");
}
END_TEST

START_TEST(nothing_outside_is_reached)
{
    static const char *const absent[] = {"io",        "require", "package", "dofile",
                                         "loadfile",  "print",   "debug",   "newproxy",
                                         "coroutine", "getfenv", "setfenv", "module"};
    char text[64];
    for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
        snprintf(text, sizeof text, "return %s", absent[i]);
        check_has(text, "nonexistent global variable");
    }
    check_reply("return {os.execute, os.getenv, string.dump}", "*0\r\n");
    check_has("return loadstring('\\27Lua')()", "attempt to call a nil value");
    check_has("return redis.call('get', 'k')", "only be called inside");
}
END_TEST

START_TEST(globals_stay_as_they_are)
{
    static const char *const changes[] = {
        "x = 1",
        "string.find = nil",
        "redis.call = 1",
        "_G.redis = 1",
        "rawset(_G, 'x', 1)",
        "rawset(redis, 'call', 1)",
        "setmetatable(_G, {})",
        "setmetatable(string, {})",
        "getmetatable(_G).__index = {}",
        "getmetatable('').__index = {}",
        "table.insert(math, 1)",
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        check_has(changes[i], "Attempt to modify a readonly table");
    check_has("error(_G)", "unknown error");
    check_has("return _G.source", "nonexistent global variable");
    check_has("error(redis)", "unknown error");
    check_reply("return redis.line", "$-1\r\n");
    check_reply("return ('x'):rep(2) .. type(redis.call)", "$10\r\nxxfunction\r\n");
}
END_TEST

/* With the sanitizers' code the CPU time of a script may be over before its memory is. */
static bool ends_for_memory(const char *reply)
{
#ifdef MQKV_SANITIZER
    if (strstr(reply, "the script has to end") != NULL)
        return true;
#endif
    return strstr(reply, "memory") != NULL;
}

START_TEST(there_is_an_end_to_memory)
{
    static const char *const texts[] = {
        "local s, t = ('x'):rep(1e5), {} for i = 1, 1e9 do t[i] = s .. i end",
        "local s = 'x' while true do s = s .. s end",
        "local s, t = ('x'):rep(1e6), {} for i = 1, 1e4 do t[i] = s end cjson.encode(t)",
        "local s = ('x'):rep(1e7) return (s:gsub('.', s))",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *reply = run_text(texts[i]);
        ck_assert_msg(ends_for_memory(reply), "%s: %s", texts[i], reply);
        check_reply("return 1", ":1\r\n");
    }
    check_has("return ('x'):rep(1e9)", "not enough memory");
}
END_TEST

/* What would never end, in Lua or in what it calls. */
START_TEST(there_is_an_end_to_time)
{
    static const char *const texts[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "xpcall(function() while true do end end, function() while true do end end)",
        "local t = {} for i = 28, 0, -1 do t[2 ^ i] = 1 end return table.remove(t, 1)",
        "local t = {} for i = 28, 0, -1 do t[2 ^ i] = 1 end table.foreachi(t, redis.debug)",
        "local t = {} for i = 1, 3e5 do t[i] = i end table.sort(t, redis.debug) return 1",
        "return string.find(('a'):rep(1e5), '[' .. ('b'):rep(1e6) .. ']')",
        "return string.find(('a'):rep(1e5), ('.-'):rep(20) .. 'b')",
        "return string.gsub(('a'):rep(1e5), '.-.-.-.-.-b', '')",
        "local a, t = ('a'):rep(8e6), {} for i = 1, 1e4 do t[i] = a end table.sort(t)",
        "while true do collectgarbage() end",
        "local t = {} for i = 1, 1e6 do t[i] = i end while true do table.concat(t) end",
    };
    ck_assert_uint_lt(_i, sizeof texts / sizeof texts[0]);
    script_thread_vm(&lone.job)->cpu_ms = 50;
    check_has(texts[_i], "the script has to end");
    check_reply("return 1", ":1\r\n");
}
END_TEST

/* What takes long at once: in one instruction of Lua, or one step of what it calls. The CPU time of
 * the thread tells, which no other load makes longer. */
START_TEST(long_instructions_end_in_time)
{
#define FIVE(text)    text text text text text
#define HUNDRED(text) FIVE(FIVE(text " ") FIVE(text " ") FIVE(text " ") FIVE(text " "))
    static const char *const texts[] = {
        "local s = ('\\0'):rep(3e6) local a, b, x = s .. 'a', s .. 'b' s = nil "
        "while true do " HUNDRED("x = a < b") " end",
        "local t, o = {}, {} for i = 1, 2^20 do t[i] = 1 end for i = 1, 2^20 do t[i] = nil end "
        "for i = 1, 1e5 do o[i] = t end return #cjson.encode(o)",
        "local t, x = {}, 0 for i = 1, 2^20 do t[i] = 1 end for i = 1, 2^20 do t[i] = nil end "
        "while true do " HUNDRED("x = next(t)") " end",
        "local s, x = '0.' .. ('1'):rep(5e6), 0 while true do " HUNDRED("x = s + 0") " end",
        "local s, x = ('x'):rep(1e7), 0 while true do " HUNDRED("x = s:sub(2)") " end",
        "local t = {1, 2} for i = 1, 21 do t = {t, t} end return t",
    };
    ck_assert_uint_lt(_i, sizeof texts / sizeof texts[0]);
    script_thread_vm(&lone.job)->cpu_ms = 300;
    uint64_t began_ns = clock_thread_ns();
    check_has(texts[_i], "the script has to end");
    ck_assert_uint_lt((clock_thread_ns() - began_ns) / 1000000, 1000);
    check_reply("return 1", ":1\r\n");
}
END_TEST

/* Also of a script that waits, and takes no CPU time. */
START_TEST(there_is_an_end_to_waiting)
{
    script_thread_vm(&lone.job)->cpu_ms = UINT32_MAX;
    script_thread_vm(&lone.job)->clock_ms = 50;
    check_has("while true do end", "the script has to end");
    check_reply("return 1", ":1\r\n");
}
END_TEST

START_TEST(stacks_have_an_end)
{
    check_has("return string.find(('a'):rep(1e6), ('a?'):rep(3e5))", "too complex");
    check_has("return string.find('a', ('('):rep(1e5))", "too many captures");
    check_has("local function f() return 1 + f() end return f()", "stack overflow");
    check_has("local function f() return (string.gsub('a', 'a', f)) end return f()", "overflow");
    check_has("local function f() return select(2, pcall(f)) end return f()", "overflow");
    check_has("local t = setmetatable({}, {__index = function(t, k) return t[k] end}) return t.x",
              "overflow");
    check_has("return xpcall(error, function() error('again') end)", "$-1\r\n");
    check_has("return unpack({}, 1, 8001)", "too many results");
    check_has("return unpack({}, -2147483648, 2147483647)", "too many results");
    check_has("return cjson.decode(('['):rep(1e5))", "too many nested");
    check_has("local t = {} for i = 1, 1e5 do t = {t} end return cjson.encode(t)",
              "excessive nesting");
    check_has("return table.insert({}, -2147483648, 1)", "out of bounds");
    check_has("local s = ('('):rep(1e6) return loadstring('return ' .. s)()",
              "attempt to call a nil value");
}
END_TEST

START_TEST(random_numbers_are_in_range)
{
    check_reply("for i = 1, 1000 do local x = math.random(3, 5) assert(x >= 3 and x <= 5) "
                "local y = math.random() assert(y >= 0 and y <= 1) end return 1",
                ":1\r\n");
    check_reply("math.randomseed(5) local a = math.random(1e6) math.randomseed(5) "
                "return a == math.random(1e6)",
                ":1\r\n");
}
END_TEST

START_TEST(kills_end_a_script)
{
    /* The kill came behind the script's start, as of another thread. */
    lone.user.script_kills = 1;
    check_reply("return 1", ":1\r\n");
}
END_TEST

/* The cache ----------------------------------------------------------------------------------- */

static void add_text(unsigned number, size_t bytes, char hex[SHA1_HEX_BYTES])
{
    char *text = calloc(1, bytes);
    snprintf(text, bytes, "return %u", number);
    sha1_hex(kv_slice(text, bytes), hex);
    script_cache_add(hex, kv_slice(text, bytes));
    free(text);
}

START_TEST(the_oldest_text_goes)
{
    char first[SHA1_HEX_BYTES], hex[SHA1_HEX_BYTES];
    add_text(0, 32, first);
    ck_assert(script_is_loaded(first));
    struct script_text *held = script_cache_find(first);
    for (unsigned i = 1; i <= SCRIPTS_MAX; i++)
        add_text(i, 32, hex);
    ck_assert(!script_is_loaded(first));
    ck_assert(script_is_loaded(hex));
    ck_assert_str_eq(script_text_slice(held).data, "return 0");
    script_text_release(held);
}
END_TEST

START_TEST(texts_have_so_many_bytes)
{
    char first[SHA1_HEX_BYTES], hex[SHA1_HEX_BYTES];
    add_text(0, 1 << 20, first);
    for (unsigned i = 1; i <= (SCRIPTS_MAX_BYTES >> 20); i++)
        add_text(i, 1 << 20, hex);
    ck_assert(!script_is_loaded(first));
    ck_assert(script_is_loaded(hex));
    add_text(1000, SCRIPTS_MAX_BYTES, hex);
    ck_assert(!script_is_loaded(hex));
}
END_TEST

START_TEST(a_flush_forgets_what_is_compiled)
{
    static const struct script_arguments none;
    char hex[SHA1_HEX_BYTES];
    sha1_hex(kv_slice_from_string("return 7"), hex);
    check_reply("return 7", ":7\r\n");
    ck_assert(script_run(&lone.job, hex, kv_slice(NULL, 0), &none));
    script_flush_texts();
    ck_assert(!script_run(&lone.job, hex, kv_slice(NULL, 0), &none));
}
END_TEST

START_TEST(many_scripts_are_compiled_anew)
{
    char text[32];
    for (unsigned i = 0; i < 3000; i++) {
        char expected[32];
        snprintf(text, sizeof text, "return %u", i);
        snprintf(expected, sizeof expected, ":%u\r\n", i);
        check_reply(text, expected);
    }
}
END_TEST

/* Functions ----------------------------------------------------------------------------------- */

static const char *load_library(const char *text, bool replace)
{
    lone.job.error = NULL;
    lone.session.reply.bytes.start = lone.session.reply.bytes.end = 0;
    script_function_load(&lone.job, kv_slice_from_string(text), replace);
    return lone.job.error ? lone.job.error : "";
}

static const char *call_function(const char *name)
{
    static char reply[256];
    static const struct script_arguments none;
    lone.job.error = NULL;
    lone.session.reply.bytes.start = lone.session.reply.bytes.end = 0;
    script_function_call(&lone.job, kv_slice_from_string(name), &none);
    struct kv_slice given = byte_buffer_slice(&lone.session.reply.bytes);
    snprintf(reply, sizeof reply, "%.*s%s", (int)given.size, (const char *)given.data,
             lone.job.error ? lone.job.error : "");
    return reply;
}

START_TEST(functions_come_and_go)
{
    ck_assert_str_eq(load_library("#!lua name=a\nredis.register_function('f', function() return 1 "
                                  "end)",
                                  false),
                     "");
    ck_assert_str_eq(call_function("f"), ":1\r\n");
    ck_assert_str_eq(load_library("#!lua name=a\nredis.register_function('f', function() return 2 "
                                  "end)",
                                  false),
                     "ERR Library 'a' already exists");
    ck_assert_str_eq(call_function("f"), ":1\r\n");
    ck_assert_str_eq(load_library("#!lua name=a\nredis.register_function('f', function() return 2 "
                                  "end)",
                                  true),
                     "");
    ck_assert_str_eq(call_function("f"), ":2\r\n");
    ck_assert_str_eq(load_library("#!lua name=b\nredis.register_function('f', function() return 3 "
                                  "end)",
                                  false),
                     "ERR Function f already exists");
    ck_assert_str_eq(call_function("f"), ":2\r\n");
    ck_assert(script_function_delete(&lone.job, kv_slice_from_string("a")));
    ck_assert(!script_function_delete(&lone.job, kv_slice_from_string("a")));
    ck_assert_str_eq(call_function("f"), "ERR Function not found");
}
END_TEST

#define LIBRARY(name, value) \
    "#!lua name=" name "\nredis.register_function('" name "_f', function() return " value " end)"

static struct script_library *install_library(const char *name, const char *text)
{
    char taken[LIBRARY_NAME_BYTES];
    struct library_function function = {.flags = 0};
    struct script_library *removed, *library = script_library_new(name, kv_slice_from_string(text));
    snprintf(function.name, sizeof function.name, "%s_f", name);
    ck_assert_ptr_null(script_library_add(library, &function));
    ck_assert_int_eq(script_library_install(library, true, taken, &removed), INSTALLED);
    script_library_release(removed);
    return library;
}

/* What a transaction did is taken back, unless others have changed it since. */
START_TEST(changes_of_libraries_are_taken_back)
{
    const struct script_library *first = install_library("a", LIBRARY("a", "1"));
    ck_assert_str_eq(call_function("a_f"), ":1\r\n");
    script_library_restore(first, NULL);
    ck_assert_str_eq(call_function("a_f"), "ERR Function not found");
    install_library("a", LIBRARY("a", "2"));
    install_library("b", LIBRARY("b", "3"));
    struct script_library *removed = script_library_flush();
    ck_assert_str_eq(call_function("b_f"), "ERR Function not found");
    install_library("b", LIBRARY("b", "4")); /* by somebody else */
    script_library_restore(NULL, removed);
    ck_assert_str_eq(call_function("a_f"), ":2\r\n");
    ck_assert_str_eq(call_function("b_f"), ":4\r\n");
}
END_TEST

/* EVAL's KEYS are not what a function of somebody else finds. */
START_TEST(functions_find_no_keys_of_scripts)
{
    ck_assert_str_eq(load_library("#!lua name=a\nredis.register_function('f', function() return "
                                  "KEYS end)",
                                  false),
                     "");
    check_reply("return #KEYS", ":0\r\n");
    ck_assert_ptr_nonnull(strstr(call_function("f"), "nonexistent global variable 'KEYS'"));
}
END_TEST

START_TEST(a_library_that_never_ends_is_not_loaded)
{
    script_thread_vm(&lone.job)->cpu_ms = 50;
    ck_assert_ptr_nonnull(
        strstr(load_library("#!lua name=a\nwhile true do end", false), "the script has to end"));
    ck_assert_ptr_nonnull(strstr(
        load_library("#!lua name=a\nlocal s = 'x' while true do s = s .. s end", false), "memory"));
    ck_assert_str_eq(call_function("f"), "ERR Function not found");
}
END_TEST

/* What libraries keep does not take the memory of the scripts of others: too much is forgotten. A
 * little stays, whatever a script in between has used. */
START_TEST(what_libraries_keep_has_an_end)
{
    ck_assert_str_eq(
        load_library("#!lua name=a\nlocal kept, calls = {}, 0\n"
                     "redis.register_function('fill', function()\n"
                     "  local add = function(n) local t = {} for i = 1, n do t[i] = i end "
                     "kept[#kept + 1] = t end\n"
                     "  for k = 20, 2, -1 do while pcall(add, 2 ^ k) do end end\n"
                     "  return 1 end)\n"
                     "redis.register_function('f', function() calls = calls + 1 return calls end)",
                     false),
        "");
    ck_assert_str_eq(call_function("f"), ":1\r\n");
    check_reply("return #('x'):rep(2e7)", ":20000000\r\n");
    ck_assert_str_eq(call_function("f"), ":2\r\n");
    script_thread_vm(&lone.job)->cpu_ms = UINT32_MAX;
    script_thread_vm(&lone.job)->clock_ms = UINT32_MAX;
    ck_assert_str_eq(call_function("fill"), ":1\r\n");
    check_reply("return #('x'):rep(2e7)", ":20000000\r\n");
    ck_assert_str_eq(call_function("f"), ":1\r\n");
}
END_TEST

START_TEST(libraries_have_so_many_bytes)
{
    char *text = malloc(LIBRARIES_MAX_BYTES / 4 + 256);
    unsigned loaded = 0;
    for (unsigned i = 0; i < 8; i++) {
        int size = sprintf(
            text, "#!lua name=l%u\nredis.register_function('f%u', function() end) --", i, i);
        memset(text + size, 'x', LIBRARIES_MAX_BYTES / 4);
        text[(size_t)size + LIBRARIES_MAX_BYTES / 4] = '\0';
        loaded += *load_library(text, false) == '\0';
    }
    free(text);
    ck_assert_uint_eq(loaded, 3);
}
END_TEST

TEST_SUITE(kresp_scripts)
{
    TCase *scripts = tcase_create("scripts");
    tcase_set_timeout(scripts, 60);
    tcase_add_checked_fixture(scripts, begin_scripts, end_scripts);
    tcase_add_test(scripts, values_become_replies);
    tcase_add_test(scripts, nothing_outside_is_reached);
    tcase_add_test(scripts, globals_stay_as_they_are);
    tcase_add_test(scripts, there_is_an_end_to_memory);
    tcase_add_loop_test(scripts, there_is_an_end_to_time, 0, 12);
    tcase_add_loop_test(scripts, long_instructions_end_in_time, 0, 6);
    tcase_add_test(scripts, there_is_an_end_to_waiting);
    tcase_add_test(scripts, stacks_have_an_end);
    tcase_add_test(scripts, random_numbers_are_in_range);
    tcase_add_test(scripts, kills_end_a_script);
    tcase_add_test(scripts, the_oldest_text_goes);
    tcase_add_test(scripts, texts_have_so_many_bytes);
    tcase_add_test(scripts, a_flush_forgets_what_is_compiled);
    tcase_add_test(scripts, many_scripts_are_compiled_anew);
    tcase_add_test(scripts, functions_come_and_go);
    tcase_add_test(scripts, changes_of_libraries_are_taken_back);
    tcase_add_test(scripts, functions_find_no_keys_of_scripts);
    tcase_add_test(scripts, a_library_that_never_ends_is_not_loaded);
    tcase_add_test(scripts, what_libraries_keep_has_an_end);
    tcase_add_test(scripts, libraries_have_so_many_bytes);
    suite_add_tcase(suite, scripts);
}

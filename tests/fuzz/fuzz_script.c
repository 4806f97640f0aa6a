/*
 * covers: bridges/kresp/script/lua_pattern.c bridges/kresp/script/lua_json.c
 * covers: bridges/kresp/script/lua_values.c
 *
 * What kresp adds to Lua, under libFuzzer: any bytes are a pattern and a text for find, gmatch and
 * gsub; they are JSON, or none, whose text is the same after a second time; and what was read of
 * them becomes a reply, which becomes a value and the same reply again.
 */
#include "tests/fuzz/fuzzing.h"

#include <lauxlib.h>

#include "bridges/kresp/script/lua_values.h"
#include "bridges/kresp/script/script_thread.h"
#include "bridges/kresp/session/redis_session.h"

static const char program[] =
    "local pattern, text = ...\n"
    "pcall(string.find, text, pattern)\n"
    "pcall(string.gsub, text, pattern, '%0%1')\n"
    "pcall(string.gsub, text, pattern, {a = 'b'})\n"
    "pcall(function() for a, b in string.gmatch(text, pattern) do local c = a end end)\n"
    "local is_json, value = pcall(cjson.decode, text)\n"
    "if not is_json then return text end\n"
    "local encodes, json = pcall(cjson.encode, value)\n"
    "if encodes then\n"
    "    local again = cjson.encode(cjson.decode(json))\n"
    "    assert(#again == #json)\n"
    "end\n"
    "return value\n";

struct fuzzed_bytes {
    const char *pattern, *text;
    size_t pattern_size, text_size;
    struct resp_reply reply, again;
};

static int run_fuzzed(lua_State *lua)
{
    struct fuzzed_bytes *fuzzed = lua_touserdata(lua, 1);
    lua_settop(lua, 0);
    require(luaL_loadbuffer(lua, program, sizeof program - 1, "=fuzz") == 0);
    lua_pushlstring(lua, fuzzed->pattern, fuzzed->pattern_size);
    lua_pushlstring(lua, fuzzed->text, fuzzed->text_size);
    lua_call(lua, 2, 1);
    lua_write_reply(lua, &fuzzed->reply, false);
    require(lua_gettop(lua) == 0);
    struct kv_slice written = byte_buffer_slice(&fuzzed->reply.bytes);
    byte_buffer_append(&fuzzed->reply.bytes, "", 1);
    written.data = fuzzed->reply.bytes.data;
    require(lua_push_reply(lua, written.data) == (const char *)written.data + written.size);
    lua_write_reply(lua, &fuzzed->again, false);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct redis_user user;
    static struct redis_session session = {.user = &user};
    static struct thread_scripts scripts;
    static struct batch_memory memory = {.scripts = &scripts};
    struct redis_job job = {.session = &session, .memory = &memory};
    if (size < 2 || size > 4096)
        return 0;
    size_t pattern_size = data[0] % (size - 1);
    struct fuzzed_bytes fuzzed = {.pattern = (const char *)data + 1,
                                  .pattern_size = pattern_size,
                                  .text = (const char *)data + 1 + pattern_size,
                                  .text_size = size - 1 - pattern_size,
                                  .reply.protocol = 2,
                                  .again.protocol = 2};
    struct script_vm *vm = script_thread_vm(&job);
    require(vm != NULL);
    script_vm_begin(vm, &job);
    vm->cpu_ms = 20; /* what takes long is found elsewhere */
    int status = script_vm_call(vm, run_fuzzed, &fuzzed);
    const char *error = status == LUA_ERRRUN ? lua_tostring(vm->lua, -1) : "";
    require(error && strstr(error, "assertion") == NULL);
    if (status != 0 || vm->must_end)
        script_thread_discard(&job);
    byte_buffer_free(&fuzzed.reply.bytes);
    byte_buffer_free(&fuzzed.again.bytes);
    return 0;
}

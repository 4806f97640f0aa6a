#include "bridges/kresp/script/script_function.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/text/glob.h"
#include "bridges/kresp/script/lua_register.h"
#include "bridges/kresp/script/script_call.h"
#include "bridges/kresp/script/script_library.h"
#include "bridges/kresp/session/redis_session.h"
#include "bridges/kresp/session/transaction_run.h"

#define LIBRARY_CHUNK "@user_function"

/* The first line ------------------------------------------------------------------------------- */

/* Reads "#!lua name=NAME"; its size is *size. False: the job has failed. */
static bool read_library_line(struct redis_job *job, struct kv_slice text,
                              char name[LIBRARY_NAME_BYTES], size_t *size)
{
    const char *bytes = text.data;
    char line[256], *rest, *word;
    name[0] = '\0';
    if (text.size < 2 || bytes[0] != '#' || bytes[1] != '!') {
        redis_job_fail(job, "ERR Missing library metadata");
        return false;
    }
    const char *end = memchr(bytes, '\n', text.size);
    if (!end || (size_t)(end - bytes) >= sizeof line) {
        redis_job_fail(job, "ERR Invalid library metadata");
        return false;
    }
    *size = (size_t)(end - bytes);
    memcpy(line, bytes, *size);
    line[*size] = '\0';
    word = strtok_r(line + 2, " \r", &rest);
    if (!word || strcasecmp(word, "lua") != 0) {
        redis_job_fail(job, "ERR Engine '%.*s' not found", 100, word ? word : "");
        return false;
    }
    while (!job->error && (word = strtok_r(NULL, " \r", &rest))) {
        if (strncasecmp(word, "name=", 5) != 0)
            redis_job_fail(job, "ERR Invalid metadata value given: %.*s", 100, word);
        else if (name[0] != '\0')
            redis_job_fail(job, "ERR Invalid metadata value, name argument was given multiple "
                                "times");
        else if (!script_library_is_name(word + 5, strlen(word + 5)))
            redis_job_fail(job, "ERR Library names can only contain letters, numbers, or "
                                "underscores(_) and must be at least one character long");
        else
            strcpy(name, word + 5);
    }
    if (!job->error && name[0] == '\0')
        redis_job_fail(job, "ERR Library name was not given");
    return !job->error;
}

/* Loading and calling -------------------------------------------------------------------------- */

/* Runs the library's text, behind its first line. False: the call has an error. */
static bool run_library(lua_State *lua, struct script_call *call)
{
    const char *text = call->text.data;
    const char *start = memchr(text, '\n', call->text.size);
    size_t size = start ? call->text.size - (size_t)(start - text) : 0;
    lua_pushliteral(lua, LIBRARY_CHUNK); /* held while it is compiled */
    if (script_vm_load(lua, kv_slice(start ? start : "", size), LIBRARY_CHUNK) != 0) {
        call->outcome = SCRIPT_BAD_TEXT;
        snprintf(call->error, sizeof call->error, "ERR Error compiling function: %s",
                 lua_tostring(lua, -1));
        return false;
    }
    script_forget_lists(lua);
    call->vm->registers = true;
    bool runs = script_call_quietly(lua, call, "Error registering functions");
    call->vm->registers = false;
    return runs;
}

static int load_under_lua(lua_State *lua)
{
    struct script_call *call = lua_touserdata(lua, 1);
    /* What it registers here counts for nothing: the library may not be installed. */
    lua_newtable(lua);
    lua_setfield(lua, LUA_REGISTRYINDEX, SCRIPT_FUNCTIONS);
    call->vm->libraries = UINT64_MAX;
    call->vm->library = call->context;
    run_library(lua, call);
    return 0;
}

/* What was done to the libraries by a command of a transaction. */
struct library_change {
    struct script_library *installed, *removed; /* held; either may be NULL */
};

static void end_library_change(void *what, bool undo)
{
    struct library_change *change = what;
    if (undo)
        script_library_restore(change->installed, change->removed);
    else
        script_library_release_all(change->removed);
    script_library_release(change->installed);
    free(change);
}

/* Notes the change, whose references it takes over, for the transaction that executes the job. */
static void note_library_change(const struct redis_job *job, struct script_library *installed,
                                struct script_library *removed)
{
    struct library_change *change = job->run ? malloc(sizeof *change) : NULL;
    if (change) {
        *change = (struct library_change){.installed = installed, .removed = removed};
        if (!redis_transaction_note_effect(job->run, end_library_change, change))
            end_library_change(change, false);
    } else {
        script_library_release_all(removed);
        script_library_release(installed);
    }
}

void script_function_load(struct redis_job *job, struct kv_slice text, bool replace)
{
    char name[LIBRARY_NAME_BYTES], taken[LIBRARY_NAME_BYTES] = "";
    size_t line;
    if (!read_library_line(job, text, name, &line))
        return;
    struct script_library *library = script_library_new(name, text);
    if (!library) {
        redis_job_fail(job, "ERR kresp: out of memory");
        return;
    }
    struct script_call call = {.job = job, .name = name, .text = text, .context = library};
    script_call_run(&call, load_under_lua);
    if (!job->error && !library->functions)
        redis_job_fail(job, "ERR No functions registered");
    if (job->error) {
        script_library_release(library);
        return;
    }
    struct script_library *held = script_library_hold(library), *removed;
    switch (script_library_install(library, replace, taken, &removed)) {
    case INSTALLED:
        note_library_change(job, held, removed);
        reply_bulk_text(redis_job_reply(job), name);
        return;
    case INSTALL_NAME_TAKEN:
        redis_job_fail(job, "ERR Library '%s' already exists", name);
        break;
    case INSTALL_FUNCTION_TAKEN:
        redis_job_fail(job, "ERR Function %s already exists", taken);
        break;
    case INSTALL_FULL:
        redis_job_fail(job, "ERR kresp: there are too many libraries, or too large ones");
        break;
    }
    script_library_release(held);
    script_library_release(library);
}

/* The library of a function, and what the libraries' generation was before it was looked for: it
 * may have been replaced since, and is then looked for again by the next call. */
struct function_library {
    struct script_library *library;
    uint64_t generation;
};

/* Pushes the function's table, which its library makes if need be; nil: the call has failed. */
static void push_function(lua_State *lua, struct script_call *call)
{
    const struct function_library *found = call->context;
    if (call->vm->libraries != found->generation) {
        lua_newtable(lua);
        lua_setfield(lua, LUA_REGISTRYINDEX, SCRIPT_FUNCTIONS);
        call->vm->libraries = found->generation;
    }
    lua_getfield(lua, LUA_REGISTRYINDEX, SCRIPT_FUNCTIONS);
    lua_getfield(lua, -1, call->name);
    if (!lua_isnil(lua, -1))
        return;
    lua_pop(lua, 1);
    call->text = kv_slice(found->library->text, found->library->size);
    if (run_library(lua, call))
        lua_getfield(lua, 2, call->name);
    else
        lua_pushnil(lua);
}

static int call_under_lua(lua_State *lua)
{
    struct script_call *call = lua_touserdata(lua, 1);
    push_function(lua, call);
    if (lua_isnil(lua, -1)) {
        if (call->outcome == SCRIPT_RUN)
            call->outcome = SCRIPT_ABSENT;
        return 0;
    }
    lua_rawgeti(lua, -1, 2);
    unsigned flags = (unsigned)lua_tointeger(lua, -1);
    lua_pop(lua, 1);
    call->vm->rights.no_writes = (flags & FUNCTION_NO_WRITES) != 0;
    if (call->arguments->read_only && !(flags & FUNCTION_NO_WRITES)) {
        call->outcome = SCRIPT_BAD_TEXT;
        snprintf(call->error, sizeof call->error,
                 "ERR Can not execute a script with write flag using *_ro command.");
        return 0;
    }
    script_forget_lists(lua);
    lua_rawgeti(lua, -1, 1);
    script_push_list(lua, call->arguments->keys, call->arguments->key_count);
    script_push_list(lua, call->arguments->rest, call->arguments->rest_count);
    script_call_reply(lua, call, 2);
    return 0;
}

void script_function_call(struct redis_job *job, struct kv_slice name,
                          const struct script_arguments *arguments)
{
    char copy[LIBRARY_NAME_BYTES] = "";
    struct function_library found = {.generation = script_library_generation()};
    found.library = script_library_of(name);
    if (found.library) {
        memcpy(copy, name.data, name.size);
        struct script_call call = {
            .job = job, .name = copy, .arguments = arguments, .context = &found};
        script_call_run(&call, call_under_lua);
        script_library_release(found.library);
        if (call.outcome != SCRIPT_ABSENT)
            return;
    }
    redis_job_fail(job, "ERR Function not found");
}

/* What there is -------------------------------------------------------------------------------- */

struct function_listing {
    struct redis_job *job;
    const struct kv_slice *pattern;
    bool with_code;
    uint64_t steps;
    size_t libraries, functions;
    struct resp_reply reply; /* of the libraries */
};

static void list_function(struct resp_reply *reply, const struct library_function *function)
{
    reply_map(reply, 3);
    reply_bulk_text(reply, "name");
    reply_bulk_text(reply, function->name);
    reply_bulk_text(reply, "description");
    if (function->is_described)
        reply_bulk_text(reply, function->description);
    else
        reply_null(reply);
    reply_bulk_text(reply, "flags");
    reply_set(reply, (size_t)__builtin_popcount(function->flags));
    for (unsigned flag = 1; flag <= FUNCTION_CROSS_SLOT; flag <<= 1)
        if (function->flags & flag)
            reply_simple(reply, function_flag_name(flag));
}

static void list_library(void *context, const struct script_library *library)
{
    struct function_listing *listing = context;
    struct resp_reply *reply = &listing->reply;
    size_t count = 0;
    for (const struct library_function *function = library->functions; function;
         function = function->next)
        count++;
    if (listing->pattern && !glob_matches(*listing->pattern, kv_slice_from_string(library->name),
                                          true, &listing->steps))
        return;
    listing->libraries++;
    listing->functions += count;
    reply_map(reply, listing->with_code ? 4 : 3);
    reply_bulk_text(reply, "library_name");
    reply_bulk_text(reply, library->name);
    reply_bulk_text(reply, "engine");
    reply_bulk_text(reply, "LUA");
    reply_bulk_text(reply, "functions");
    reply_array(reply, count);
    for (const struct library_function *function = library->functions; function;
         function = function->next)
        list_function(reply, function);
    if (listing->with_code) {
        reply_bulk_text(reply, "library_code");
        reply_bulk(reply, kv_slice(library->text, library->size));
    }
}

static struct function_listing begin_listing(struct redis_job *job)
{
    return (struct function_listing){
        .job = job,
        .steps = glob_steps(0),
        .reply = {.bytes.owner = job->owner, .protocol = redis_job_reply(job)->protocol}};
}

void script_function_list(struct redis_job *job, const struct kv_slice *pattern, bool with_code)
{
    struct function_listing listing = begin_listing(job);
    listing.pattern = pattern;
    listing.with_code = with_code;
    script_library_each(list_library, &listing);
    struct resp_reply *reply = redis_job_reply(job);
    if (listing.steps == 0) {
        redis_job_fail(job, "ERR kresp: this pattern is too long");
    } else if (listing.reply.bytes.failed) {
        redis_job_fail(job, "ERR kresp: out of memory");
    } else {
        reply_array(reply, listing.libraries);
        byte_buffer_append(&reply->bytes, listing.reply.bytes.data + listing.reply.bytes.start,
                           byte_buffer_size(&listing.reply.bytes));
    }
    byte_buffer_free(&listing.reply.bytes);
}

void script_function_stats(struct redis_job *job)
{
    struct function_listing listing = begin_listing(job);
    struct resp_reply *reply = redis_job_reply(job);
    script_library_each(list_library, &listing);
    byte_buffer_free(&listing.reply.bytes);
    reply_map(reply, 2);
    reply_bulk_text(reply, "running_script");
    reply_null(reply);
    reply_bulk_text(reply, "engines");
    reply_map(reply, 1);
    reply_bulk_text(reply, "LUA");
    reply_map(reply, 2);
    reply_bulk_text(reply, "libraries_count");
    reply_integer(reply, (int64_t)listing.libraries);
    reply_bulk_text(reply, "functions_count");
    reply_integer(reply, (int64_t)listing.functions);
}

bool script_function_delete(struct redis_job *job, struct kv_slice name)
{
    struct script_library *removed = script_library_delete(name);
    if (removed)
        note_library_change(job, NULL, removed);
    return removed != NULL;
}

void script_function_flush(struct redis_job *job)
{
    note_library_change(job, NULL, script_library_flush());
}

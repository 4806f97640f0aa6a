/*
 * script_call: what EVAL and FCALL share: a function that runs in the VM of the job's thread, with
 * its reply or its error, whatever it does.
 */
#ifndef MQKV_KRESP_SCRIPT_SCRIPT_CALL_H
#define MQKV_KRESP_SCRIPT_SCRIPT_CALL_H

#include "bridges/kresp/script/script_arguments.h"
#include "bridges/kresp/script/script_vm.h"

enum script_outcome {
    SCRIPT_RUN,      /* the reply is written, or there is none */
    SCRIPT_ABSENT,   /* no such script */
    SCRIPT_BAD_TEXT, /* see `error` */
    SCRIPT_TOO_LARGE /* for the memory that it may have */
};

struct script_call {
    struct script_vm *vm;
    struct redis_job *job;
    const char *name; /* of the script, in its errors */
    struct kv_slice text;
    const struct script_arguments *arguments; /* NULL: the script is not called */
    void *context;                            /* of the function that runs */
    enum script_outcome outcome;
    char error[256]; /* of SCRIPT_BAD_TEXT */
};

/* Runs the function, whose argument is the call, in the VM of the job's thread. The job fails if
 * the call does; then nothing was replied. */
void script_call_run(struct script_call *call, lua_CFunction function);

/* For that function: calls the Lua function that is on the stack's top but for `count` arguments,
 * and replies what it returns or raises. */
void script_call_reply(lua_State *lua, struct script_call *call, int count);

/* The same without a reply, and without arguments. False: its error is in the call. what: stands
 * before it. */
bool script_call_quietly(lua_State *lua, struct script_call *call, const char *what);

/* KEYS and ARGV of the last script are no globals any more. */
void script_forget_lists(lua_State *lua);

/* Pushes a table of the items. */
void script_push_list(lua_State *lua, const struct kv_slice *items, size_t count);

#endif

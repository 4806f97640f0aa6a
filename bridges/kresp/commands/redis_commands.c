/* The rows of all commands. */
#include "bridges/kresp/commands/command_functions.h"
#include "bridges/kresp/session/redis_command.h"

#define READ         COMMAND_READ
#define WRITE        COMMAND_WRITE
#define ONCE         COMMAND_AT_ONCE
#define FAST         COMMAND_FAST
#define WHOLE        COMMAND_WHOLE_STORE
#define TOGETHER     COMMAND_TOGETHER
#define SCRIPT       COMMAND_SCRIPT
#define NO_SCRIPT    COMMAND_NO_SCRIPT
#define DIVISIBLE    (COMMAND_TOGETHER | COMMAND_DIVISIBLE)
#define OF(name)     plan_##name, answer_##name
#define ANSWER(name) NULL, answer_##name

/* Name, arity, flags, functions, first key, last key, step. */
const struct redis_command redis_commands[] = {
    /* strings */
    {"get", 2, READ | FAST, OF(get), 1, 1, 1},
    {"set", -3, WRITE, OF(set), 1, 1, 1},
    {"setnx", 3, WRITE | FAST, OF(setnx), 1, 1, 1},
    {"setex", 4, WRITE, OF(setex), 1, 1, 1},
    {"psetex", 4, WRITE, OF(setex), 1, 1, 1},
    {"getset", 3, WRITE | FAST, OF(getset), 1, 1, 1},
    {"getdel", 2, WRITE | FAST, OF(getdel), 1, 1, 1},
    {"getex", -2, WRITE | FAST, OF(getex), 1, 1, 1},
    {"mget", -2, READ | FAST | DIVISIBLE, OF(mget), 1, -1, 1},
    {"mset", -3, WRITE | TOGETHER, OF(mset), 1, -1, 2},
    {"msetnx", -3, WRITE | TOGETHER, OF(msetnx), 1, -1, 2},
    {"incr", 2, WRITE | FAST, OF(incr), 1, 1, 1},
    {"decr", 2, WRITE | FAST, OF(incr), 1, 1, 1},
    {"incrby", 3, WRITE | FAST, OF(incr), 1, 1, 1},
    {"decrby", 3, WRITE | FAST, OF(incr), 1, 1, 1},
    {"incrbyfloat", 3, WRITE | FAST, OF(incrbyfloat), 1, 1, 1},
    {"append", 3, WRITE | FAST, OF(append), 1, 1, 1},
    {"strlen", 2, READ | FAST, OF(strlen), 1, 1, 1},
    {"getrange", 4, READ, OF(getrange), 1, 1, 1},
    {"substr", 4, READ, OF(getrange), 1, 1, 1},
    {"setrange", 4, WRITE, OF(setrange), 1, 1, 1},
    /* keys */
    {"del", -2, WRITE | DIVISIBLE, OF(del), 1, -1, 1},
    {"unlink", -2, WRITE | FAST | DIVISIBLE, OF(del), 1, -1, 1},
    {"delex", -2, WRITE | FAST, OF(delex), 1, 1, 1},
    {"exists", -2, READ | FAST | DIVISIBLE, OF(exists), 1, -1, 1},
    {"touch", -2, READ | FAST | DIVISIBLE, OF(exists), 1, -1, 1},
    {"type", 2, READ | FAST, OF(type), 1, 1, 1},
    {"rename", 3, WRITE | TOGETHER, OF(rename), 1, 2, 1},
    {"renamenx", 3, WRITE | FAST | TOGETHER, OF(rename), 1, 2, 1},
    {"copy", -3, WRITE | TOGETHER, OF(rename), 1, 2, 1},
    {"object", -2, READ | COMMAND_CONTAINER, NULL, NULL, 0, 0, 0},
    {"object|encoding", 3, READ, OF(object), 2, 2, 1},
    {"object|freq", 3, READ, OF(object), 2, 2, 1},
    {"object|idletime", 3, READ, OF(object), 2, 2, 1},
    {"object|refcount", 3, READ, OF(object), 2, 2, 1},
    {"memory", -2, READ | COMMAND_CONTAINER, NULL, NULL, 0, 0, 0},
    {"memory|usage", -3, READ, OF(memory_usage), 2, 2, 1},
    {"expire", -3, WRITE | FAST, OF(expire), 1, 1, 1},
    {"pexpire", -3, WRITE | FAST, OF(expire), 1, 1, 1},
    {"expireat", -3, WRITE | FAST, OF(expire), 1, 1, 1},
    {"pexpireat", -3, WRITE | FAST, OF(expire), 1, 1, 1},
    {"persist", 2, WRITE | FAST, OF(persist), 1, 1, 1},
    {"ttl", 2, READ | FAST, OF(ttl), 1, 1, 1},
    {"pttl", 2, READ | FAST, OF(ttl), 1, 1, 1},
    {"expiretime", 2, READ | FAST, OF(ttl), 1, 1, 1},
    {"pexpiretime", 2, READ | FAST, OF(ttl), 1, 1, 1},
    {"scan", -2, READ | WHOLE, OF(scan), 0, 0, 0},
    {"keys", 2, READ | WHOLE, OF(keys), 0, 0, 0},
    {"randomkey", 1, READ | ONCE | WHOLE, OF(randomkey), 0, 0, 0},
    {"dbsize", 1, READ | FAST | ONCE, ANSWER(dbsize), 0, 0, 0},
    {"flushdb", -1, WRITE | WHOLE, OF(flush), 0, 0, 0},
    {"flushall", -1, WRITE | WHOLE, OF(flush), 0, 0, 0},
    /* transactions and scripts */
    {"multi", 1, FAST | ONCE | COMMAND_NOT_QUEUED, ANSWER(multi), 0, 0, 0},
    {"exec", -1, ONCE | COMMAND_NOT_QUEUED, ANSWER(exec), 0, 0, 0},
    {"discard", 1, FAST | ONCE | COMMAND_NOT_QUEUED, ANSWER(discard), 0, 0, 0},
    {"watch", -2, FAST | COMMAND_NOT_QUEUED, OF(watch), 1, -1, 1},
    {"unwatch", 1, FAST | ONCE | NO_SCRIPT, ANSWER(unwatch), 0, 0, 0},
    {"eval", -3, SCRIPT, ANSWER(eval), 0, 0, 0},
    {"evalsha", -3, SCRIPT, ANSWER(evalsha), 0, 0, 0},
    {"eval_ro", -3, SCRIPT | READ, ANSWER(eval), 0, 0, 0},
    {"evalsha_ro", -3, SCRIPT | READ, ANSWER(evalsha), 0, 0, 0},
    {"script", -2, COMMAND_CONTAINER | NO_SCRIPT, NULL, NULL, 0, 0, 0},
    {"script|load", 3, 0, ANSWER(script_load), 0, 0, 0},
    {"script|exists", -3, 0, ANSWER(script_exists), 0, 0, 0},
    {"script|flush", -2, ONCE, ANSWER(script_flush), 0, 0, 0},
    {"script|kill", 2, 0, ANSWER(script_kill), 0, 0, 0},
    {"function", -2, COMMAND_CONTAINER | NO_SCRIPT, NULL, NULL, 0, 0, 0},
    {"function|flush", -2, 0, ANSWER(function_flush), 0, 0, 0},
    {"function|list", -2, 0, ANSWER(function_list), 0, 0, 0},
    /* the connection */
    {"ping", -1, FAST, ANSWER(ping), 0, 0, 0},
    {"echo", 2, FAST, ANSWER(echo), 0, 0, 0},
    {"quit", -1, FAST | ONCE | COMMAND_NO_AUTH | COMMAND_NOT_QUEUED, ANSWER(quit), 0, 0, 0},
    {"reset", 1, FAST | ONCE | COMMAND_NO_AUTH | COMMAND_NOT_QUEUED, ANSWER(reset), 0, 0, 0},
    {"select", 2, FAST, ANSWER(select), 0, 0, 0},
    {"auth", -2, FAST | ONCE | COMMAND_NO_AUTH, ANSWER(auth), 0, 0, 0},
    {"hello", -1, FAST | ONCE | COMMAND_NO_AUTH, ANSWER(hello), 0, 0, 0},
    {"client", -2, COMMAND_CONTAINER | NO_SCRIPT, NULL, NULL, 0, 0, 0},
    {"client|id", 2, 0, ANSWER(client_id), 0, 0, 0},
    {"client|getname", 2, 0, ANSWER(client_getname), 0, 0, 0},
    {"client|setname", 3, 0, ANSWER(client_setname), 0, 0, 0},
    {"client|setinfo", 4, 0, ANSWER(client_setinfo), 0, 0, 0},
    {"client|info", 2, 0, ANSWER(client_info), 0, 0, 0},
    {"client|list", -2, 0, ANSWER(client_list), 0, 0, 0},
    {"client|no-evict", 3, 0, ANSWER(client_switch), 0, 0, 0},
    {"client|no-touch", 3, 0, ANSWER(client_switch), 0, 0, 0},
    /* the server */
    {"info", -1, ONCE, ANSWER(info), 0, 0, 0},
    {"config", -2, COMMAND_CONTAINER | NO_SCRIPT, NULL, NULL, 0, 0, 0},
    {"config|get", -3, 0, ANSWER(config_get), 0, 0, 0},
    {"config|set", -4, 0, ANSWER(config_set), 0, 0, 0},
    {"config|resetstat", 2, 0, ANSWER(ok), 0, 0, 0},
    {"command", -1, COMMAND_CONTAINER, ANSWER(command), 0, 0, 0},
    {"command|count", 2, 0, ANSWER(command_count), 0, 0, 0},
    {"command|docs", -2, 0, ANSWER(command_docs), 0, 0, 0},
    {"command|info", -2, 0, ANSWER(command_info), 0, 0, 0},
    {"command|list", -2, 0, ANSWER(command_list), 0, 0, 0},
    {"time", 1, FAST, ANSWER(time), 0, 0, 0},
    {"wait", 3, ONCE | WHOLE, ANSWER(wait), 0, 0, 0},
    {"waitaof", 4, ONCE | WHOLE, ANSWER(waitaof), 0, 0, 0},
    {"publish", 3, FAST, ANSWER(publish), 0, 0, 0},
    {"latency", -2, COMMAND_CONTAINER, NULL, NULL, 0, 0, 0},
    {"latency|latest", 2, 0, ANSWER(empty_array), 0, 0, 0},
    {"latency|reset", -2, 0, ANSWER(zero), 0, 0, 0},
    {"slowlog", -2, COMMAND_CONTAINER, NULL, NULL, 0, 0, 0},
    {"slowlog|get", -2, 0, ANSWER(slowlog_get), 0, 0, 0},
    {"slowlog|len", 2, 0, ANSWER(zero), 0, 0, 0},
    {"slowlog|reset", 2, 0, ANSWER(ok), 0, 0, 0},
};

const size_t redis_command_count = sizeof redis_commands / sizeof redis_commands[0];

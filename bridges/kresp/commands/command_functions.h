/*
 * command_functions: the functions in the table of commands: a plan and an answer for each
 * (redis_job.h), in the files that are named below. Commands that differ little share functions,
 * which look at job->command.
 */
#ifndef MQKV_KRESP_COMMANDS_COMMAND_FUNCTIONS_H
#define MQKV_KRESP_COMMANDS_COMMAND_FUNCTIONS_H

#include "bridges/kresp/session/redis_session.h"

/* Returns true if the job, which subscribes, has to go on when the link has joined the other kresp:
 * it returns false then, and its client's inbox rings. In channel_commands.c. */
bool redis_job_awaits_link(struct redis_job *job);

#define COMMAND_FUNCTIONS(name)              \
    void plan_##name(struct redis_job *job); \
    bool answer_##name(struct redis_job *job);

#define COMMAND_ANSWER(name) bool answer_##name(struct redis_job *job);

/* string_commands.c */
COMMAND_FUNCTIONS(get)
COMMAND_ANSWER(digest)
COMMAND_FUNCTIONS(strlen)
COMMAND_FUNCTIONS(append)
COMMAND_FUNCTIONS(getset)
COMMAND_FUNCTIONS(getdel)
COMMAND_FUNCTIONS(mget)
COMMAND_FUNCTIONS(mset)
COMMAND_FUNCTIONS(msetnx)

/* set_command.c */
COMMAND_FUNCTIONS(set)
COMMAND_FUNCTIONS(setnx)
COMMAND_FUNCTIONS(setex) /* PSETEX too */
COMMAND_FUNCTIONS(getex)
COMMAND_FUNCTIONS(msetex)

/* range_commands.c */
COMMAND_FUNCTIONS(getrange)
COMMAND_FUNCTIONS(setrange)

/* counter_commands.c */
COMMAND_FUNCTIONS(incr) /* DECR, INCRBY, DECRBY too */
COMMAND_FUNCTIONS(incrbyfloat)

/* expiry_commands.c */
COMMAND_FUNCTIONS(expire) /* PEXPIRE, EXPIREAT, PEXPIREAT too */
COMMAND_FUNCTIONS(persist)
COMMAND_FUNCTIONS(ttl) /* PTTL, EXPIRETIME, PEXPIRETIME too */

/* key_commands.c */
COMMAND_FUNCTIONS(del)
COMMAND_FUNCTIONS(delex)
COMMAND_FUNCTIONS(exists)
COMMAND_FUNCTIONS(type)
COMMAND_FUNCTIONS(rename) /* RENAMENX, COPY too */
COMMAND_FUNCTIONS(object)
COMMAND_FUNCTIONS(memory_usage)

/* scan_commands.c */
COMMAND_FUNCTIONS(scan)
COMMAND_FUNCTIONS(keys)
COMMAND_FUNCTIONS(randomkey)
COMMAND_FUNCTIONS(flush)
COMMAND_ANSWER(dbsize)

/* transaction_commands.c */
COMMAND_ANSWER(multi)
COMMAND_ANSWER(exec)
COMMAND_ANSWER(discard)
COMMAND_ANSWER(unwatch)
COMMAND_FUNCTIONS(watch)

/* script_commands.c */
COMMAND_ANSWER(eval)    /* EVAL_RO too */
COMMAND_ANSWER(evalsha) /* EVALSHA_RO too */
COMMAND_ANSWER(fcall)   /* FCALL_RO too */
COMMAND_ANSWER(script_load)
COMMAND_ANSWER(script_exists)
COMMAND_ANSWER(script_flush)
COMMAND_ANSWER(script_kill)

/* function_commands.c */
COMMAND_ANSWER(function_flush)
COMMAND_ANSWER(function_list)
COMMAND_ANSWER(function_load)
COMMAND_ANSWER(function_delete)
COMMAND_ANSWER(function_stats)

/* session_commands.c */
COMMAND_ANSWER(ping)
COMMAND_ANSWER(echo)
COMMAND_ANSWER(quit)
COMMAND_ANSWER(reset)
COMMAND_ANSWER(select)
COMMAND_ANSWER(auth)
COMMAND_ANSWER(hello)
COMMAND_ANSWER(acl_whoami)
COMMAND_ANSWER(client_id)
COMMAND_ANSWER(client_getname)
COMMAND_ANSWER(client_setname)
COMMAND_ANSWER(client_setinfo)
COMMAND_ANSWER(client_info)
COMMAND_ANSWER(client_list)
COMMAND_ANSWER(client_switch)

/* tracking_commands.c */
COMMAND_ANSWER(client_tracking)
COMMAND_ANSWER(client_caching)
COMMAND_ANSWER(client_trackinginfo)
COMMAND_ANSWER(client_getredir)

/* channel_commands.c */
COMMAND_ANSWER(subscribe)   /* PSUBSCRIBE too */
COMMAND_ANSWER(unsubscribe) /* PUNSUBSCRIBE too */
COMMAND_ANSWER(publish)
COMMAND_ANSWER(pubsub_channels)
COMMAND_ANSWER(pubsub_numsub)
COMMAND_ANSWER(pubsub_numpat)

/* server_commands.c */
COMMAND_ANSWER(info)
COMMAND_ANSWER(config_get)
COMMAND_ANSWER(config_set)
COMMAND_ANSWER(ok)
COMMAND_ANSWER(time)
COMMAND_ANSWER(wait)
COMMAND_ANSWER(waitaof)
COMMAND_ANSWER(save) /* BGSAVE too */
COMMAND_ANSWER(lastsave)
COMMAND_ANSWER(role)
COMMAND_ANSWER(zero)
COMMAND_ANSWER(empty_array)
COMMAND_ANSWER(slowlog_get)

/* command_command.c */
COMMAND_ANSWER(command)
COMMAND_ANSWER(command_count)
COMMAND_ANSWER(command_docs)
COMMAND_ANSWER(command_info)
COMMAND_ANSWER(command_list)
COMMAND_ANSWER(command_getkeys)
COMMAND_ANSWER(help) /* of every command of two words */

#undef COMMAND_FUNCTIONS
#undef COMMAND_ANSWER

#endif

/*
 * redis_command: the table of all commands.
 */
#ifndef MQKV_KRESP_SESSION_REDIS_COMMAND_H
#define MQKV_KRESP_SESSION_REDIS_COMMAND_H

#include "bridges/kresp/session/redis_session.h"

enum command_flags {
    COMMAND_READ = 1 << 0,
    COMMAND_WRITE = 1 << 1,

    /* Executed when no earlier command of the connection is under way, because it changes what
     * later ones mean, or asks the store itself. If its answer returns false, it is planned, and
     * nothing is planned behind it. */
    COMMAND_AT_ONCE = 1 << 2,

    COMMAND_NOT_QUEUED = 1 << 3, /* executed between MULTI and EXEC too */
    COMMAND_NO_AUTH = 1 << 4,    /* allowed to clients that have not said who they are */
    COMMAND_CONTAINER = 1 << 5,  /* the second word chooses among rows named "command|word" */
    COMMAND_FAST = 1 << 6,       /* fast, as COMMAND reports it */
    COMMAND_SUBSCRIBED = 1 << 7, /* allowed where redis_session_only_subscribes */
    /* About the store as a whole, or about what is on disk: no transaction can have it. */
    COMMAND_WHOLE_STORE = 1 << 8,

    COMMAND_TOGETHER = 1 << 9, /* executed as one transaction if it names several keys, but not more
                                  than a transaction has */
    COMMAND_SCRIPT = 1 << 10,  /* a script: executed as one transaction, whatever its keys are */
    /* A script cannot call it; nor what is not queued, or needs no password. */
    COMMAND_NO_SCRIPT = 1 << 11,

    COMMAND_DIVISIBLE = 1 << 12, /* done key by key where a cluster has its keys apart */

    COMMAND_COUNTED_KEYS = 1 << 13 /* the argument before first_key says how many keys there are */
};

struct redis_command {
    const char *name;
    int arity; /* number of arguments with the name; negative: at least that many */
    unsigned flags;
    void (*plan)(struct redis_job *job);   /* NULL: nothing to plan */
    bool (*answer)(struct redis_job *job); /* returns true if it has replied */
    int first_key, last_key, key_step;     /* as COMMAND reports them, but of counted keys */
};

/* bridges/kresp/commands/redis_commands.c has the rows. */
extern const struct redis_command redis_commands[];
extern const size_t redis_command_count;

/* Builds the index for redis_command_find; once, before threads start. */
void redis_command_init(void);

/* Finds the command of the job's arguments, and checks that it may be executed with that many of
 * them. Sets job->command, or job->error. A client that speaks HTTP gets no answer: its session is
 * `closing` then. */
void redis_command_find(struct redis_job *job);

/* Which arguments are keys: `count` of them, from `first` on, each `step` behind the one before. */
struct command_keys {
    size_t first, count, step;
};

/* Finds the keys of a command that has as many arguments as its row demands. False: it has none, or
 * the number that it gives is none, or is not that of what follows. */
bool redis_command_keys(const struct redis_command *command, const struct kv_slice *arguments,
                        size_t count, struct command_keys *keys);

/* Returns the row of the name, and of the second word if that decides; NULL: there is none. */
const struct redis_command *redis_command_of(const struct kv_slice *arguments, size_t count);

/* Returns true if the command takes so many arguments, its name among them. */
bool redis_command_has_arity(const struct redis_command *command, size_t count);

enum called_command {
    CALLED_OK,
    CALLED_UNKNOWN, /* kresp has no such command, which is logged once */
    CALLED_REFUSED  /* a script may not call it, or not so */
};

/* Finds the command that a script calls. CALLED_OK: *command is it; else *error says why not
 * ("ERR ..."), and *command is NULL. */
enum called_command redis_command_find_called(const struct kv_slice *arguments, size_t count,
                                              const struct redis_command **command,
                                              const char **error);

/* Returns true if the job's command is to be executed as one transaction. */
bool redis_command_is_together(const struct redis_job *job);

/* Has the client told of changes (CLIENT TRACKING) of what these operations of the command read;
 * before they do. */
void redis_command_remember_reads(struct redis_session *session,
                                  const struct redis_command *command,
                                  const struct clientk_operation *operations, size_t count);

/* Returns the size of the largest argument that a command may have. */
size_t redis_command_max_argument_bytes(const struct redis_service *service);

#define REDIS_TOO_LARGE "ERR string exceeds maximum allowed size (proto-max-bulk-len)"

#endif

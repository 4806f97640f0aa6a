/*
 * options: what serverk can be told, and what it is told: the table of its options, their defaults
 * and values. command_line.h reads them and knows which of them go together.
 */
#ifndef MQKV_SERVERK_CONFIG_OPTIONS_H
#define MQKV_SERVERK_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "common/numbers/cpu_list.h"
#include "common/options/option_table.h"
#include "mqkv/error.h"
#include "mqkv/kvstore.h"
#include "bridges/cluster/mirror/mirror_options.h"
#include "bridges/cluster/natskv/natskv.h"
#include "serverk/config/access_rules.h"
#include "serverk/config/dispatch_model.h"
#include "wire/reply_ring.h"
#include "wire/wait.h"

#define OPTIONS_MAX_WORKERS     256u
#define OPTIONS_MAX_CACHE_BYTES (UINT64_C(1) << 40)

/* How requests reach the workers. */
enum lanes_mode {
    LANES_AUTO,   /* every awake worker polls all lanes; as many are awake as the load needs */
    LANES_WORKER, /* each worker has lanes of its own */
    LANES_SHARED  /* one request queue that all workers receive from */
};

/* Which of the waiting requests comes first. */
enum request_order {
    ORDER_FIFO,     /* the one sent first (within a lane) */
    ORDER_PRIORITY, /* the one of the highest priority (within a lane: the kernel sees to it) */
    ORDER_LAB       /* that of the lab, of all lanes (message_order.h) */
};

#define OPTIONS_DEFAULT_SLOW_MS 100u

/* The most rows of options_rows. */
#define OPTIONS_MAX 96u

/* Room for the values of the lab's options. */
#define OPTIONS_LAB_BYTES 128u

/* Where the data are. */
enum engine_kind { ENGINE_KIND_KVSTORE, ENGINE_KIND_NATS };

struct server_options {
    const char *config;          /* the configuration file; NULL: none */
    struct access_rules *access; /* of its sections about users and quotas; NULL: there are none */
    const char *dir;
    const char *queue;
    uint32_t datafiles; /* 0: the store's own */
    uint32_t workers;   /* what it counts depends on dispatch (dispatch_model.h) */
    const struct dispatch_model *dispatch;
    enum kvstore_durability durability;
    uint32_t sync_interval_ms;
    uint64_t keep_changes_ms;
    uint64_t keep_changes_bytes;
    bool verify_every_read;
    enum kvstore_io io;
    uint64_t cache_bytes;    /* 0: none */
    uint64_t as_cache_bytes; /* what --as-cache asks for; 0: the store is no cache */
    uint64_t max_bytes;      /* of live records; 0: no bound */
    enum kvstore_evict evict;
    bool ordered; /* keys are kept in their order as well */
    enum lanes_mode lanes;
    enum request_order sched;
    bool nice;            /* workers take their nice value from the request's priority */
    struct cpu_list cpus; /* that the threads are bound to */
    struct wire_spin spin;
    enum wire_replies replies;
    uint32_t max_value_bytes;
    enum kvstore_direct direct; /* users who may read without the daemon */
    const char *no_direct;      /* why by default nobody may; NULL: the owner may */
    enum engine_kind engine;
    struct natskv_options nats; /* for ENGINE_KIND_NATS, and for the next two */
    const char *mirror;         /* servers of the cluster that has a copy; NULL: none */
    uint64_t mirror_lag_ms;
    enum mirror_over mirror_over;
    const char *restore_from; /* servers of the cluster that a store is built from; NULL: none */
    bool restore_unfinished;  /* also from a copy that was not completed */
    mode_t mode;              /* of the request queues */
    gid_t group;              /* of the request queues; (gid_t)-1: as created */
    gid_t read_group;         /* whose members may read; (gid_t)-1: there is no such group */
    bool daemon;
    const char *pidfile;   /* NULL: none */
    uint64_t idle_exit_ms; /* without a session for this long the daemon stops; 0: never */
    bool sandbox;          /* as far as the kernel has one (sandbox.h) */
    bool core_dumps;       /* a crash may leave a core file, with values in it */
    bool check;
    bool verbose;
    const char *log;     /* the file that lines are logged to; NULL: standard error */
    const char *metrics; /* the file for a collector of metrics; NULL: none */
    uint64_t slow_ms;    /* requests that take this long or longer are noted; 0: none */
    const char *audit;   /* the file for the audit log; NULL: none */
    char **words;        /* a copy of argv, to be parsed again; NULL ends it */
    struct option_origin origins[OPTIONS_MAX]; /* of each option, in the order of the table */
    _Alignas(8) unsigned char lab[OPTIONS_LAB_BYTES]; /* the lab's (lab_seam.h) */
};

/* The command line as it was typed. */
struct parsed_line {
    struct server_options options; /* but for direct */
    int direct;                    /* enum kvstore_direct; -1: not given */
    bool help, version;
};

/* All defaults. */
void parsed_line_begin(struct parsed_line *line);

/* Returns whether the daemon talks to a cluster. */
static inline bool options_use_nats(const struct server_options *options)
{
    return options->engine == ENGINE_KIND_NATS || options->mirror;
}

/* What the command line may say, also in the configuration file: the rows of the daemon, then those
 * of the lab; the last has no name. Constant from the start of main. */
extern const struct option_row *const options_rows;

/* The pages of the help: whoever runs a daemon needs the first, whoever measured one the second,
 * and whoever compares daemons the third, which has the lab's options. */
enum help_page { HELP_FIRST, HELP_TUNING, HELP_STUDIES, HELP_PAGES };

/* Prints the rows of a page as help shows them, by section. `columns`: the width of the labels,
 * which stand left of what the options mean. */
void options_print_help(FILE *stream, enum help_page page, int columns);

enum options_outcome {
    OPTIONS_RUN,
    OPTIONS_DONE, /* help or version was printed */
    OPTIONS_BAD   /* *error says which argument, its value, and what would be right */
};

/* Returns the row of the option `name`; NULL: there is none that a configuration file may have. */
const struct option_row *options_find(const char *name);

/* Returns the place of the option `name`, which must be there, in options_rows and in origins. */
unsigned options_index(const char *name);

/* From now on, names of groups are not looked up (in a sandbox that cannot be done): a group is a
 * number, or a name that was looked up before. */
void options_forbid_lookups(void);

/* Frees what belongs to *options: a copy of argv, the values from the configuration file, and the
 * rules about users. */
void options_free(struct server_options *options);

/* Returns the value of the option `name` as it was given; "": nobody gave one. */
const char *options_text_of(const struct server_options *options, const char *name);

/* "fifo", "priority", or the name of the lab's order. */
const char *sched_name(enum request_order order);

/* "auto", "worker", "shared". */
const char *lanes_mode_name(enum lanes_mode mode);

/* "none", "interval", "always". */
const char *durability_name(enum kvstore_durability durability);

#endif

#include "serverk/config/options.h"

#include <grp.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert/assert.h"
#include "common/options/option_table.h"
#include "common/text/parse.h"
#include "serverk/config/lab_seam.h"
#include "serverk/config/user_names.h"
#include "wire/queue_name.h"

#define MAX_KEEP_CHANGES_MS (UINT64_C(30) * 24 * 3600 * 1000)

/* Names of choices: NULL beyond the last. ------------------------------------------------------ */

#define NAME_OF(names, index) \
    ((size_t)(index) < sizeof(names) / sizeof(names)[0] ? (names)[index] : NULL)

static const char *lanes_mode_of(int lanes)
{
    static const char *const names[] = {
        [LANES_AUTO] = "auto", [LANES_WORKER] = "worker", [LANES_SHARED] = "shared"};
    return NAME_OF(names, lanes);
}

static const char *sched_of(int order)
{
    static const char *const names[] = {[ORDER_FIFO] = "fifo", [ORDER_PRIORITY] = "priority"};
    return order == ORDER_LAB ? lab.order_name : NAME_OF(names, order);
}

static const char *durability_of(int durability)
{
    static const char *const names[] = {[KVSTORE_SYNC_NONE] = "none",
                                        [KVSTORE_SYNC_INTERVAL] = "interval",
                                        [KVSTORE_SYNC_ALWAYS] = "always"};
    return NAME_OF(names, durability);
}

static const char *verify_of(int every)
{
    static const char *const names[] = {"first", "every"};
    return NAME_OF(names, every);
}

static const char *sandbox_choice_name(int on)
{
    static const char *const names[] = {"off", "on"};
    return NAME_OF(names, on);
}

static const char *io_of(int io)
{
    return kvstore_io_name((enum kvstore_io)io);
}

static const char *evict_of(int evict)
{
    return kvstore_evict_name((enum kvstore_evict)evict);
}

static const char *direct_choice_name(int direct)
{
    return kvstore_direct_name((enum kvstore_direct)direct);
}

static const char *engine_of(int engine)
{
    static const char *const names[] = {
        [ENGINE_KIND_KVSTORE] = "kvstore", [ENGINE_KIND_NATS] = "nats"};
    return NAME_OF(names, engine);
}

static const char *reads_of(int any)
{
    static const char *const names[] = {"leader", "any"};
    return NAME_OF(names, any);
}

static const char *nats_sync_of(int always)
{
    static const char *const names[] = {"interval", "always"};
    return NAME_OF(names, always);
}

const char *lanes_mode_name(enum lanes_mode mode)
{
    return lanes_mode_of((int)mode);
}

const char *sched_name(enum request_order order)
{
    return sched_of((int)order);
}

const char *durability_name(enum kvstore_durability durability)
{
    return durability_of((int)durability);
}

/* Values that no kind of the table fits: false if a value is none of what its row expects. ----- */

static bool parse_queue(const char *text, void *field)
{
    *(const char **)field = text;
    return wire_name_valid(text);
}

/* Fills two fields of the options. */
static bool parse_sync(const char *text, void *field)
{
    struct server_options *options = field;
    char name[16];
    size_t name_size = strcspn(text, ":");
    uint64_t interval_ms = options->sync_interval_ms;
    int durability;
    if (name_size >= sizeof name)
        return false;
    memcpy(name, text, name_size);
    name[name_size] = '\0';
    if (!parse_choice(name, durability_of, &durability))
        return false;
    options->durability = (enum kvstore_durability)durability;
    if (text[name_size] == ':' &&
        (options->durability != KVSTORE_SYNC_INTERVAL ||
         !parse_duration_ms(text + name_size + 1, 1, 3600000, &interval_ms)))
        return false;
    options->sync_interval_ms = (uint32_t)interval_ms;
    return true;
}

/* Fills two fields of the options. */
static bool parse_mirror_lag(const char *text, void *field)
{
    struct server_options *options = field;
    char time[24];
    size_t size = strcspn(text, ":");
    if (size >= sizeof time)
        return false;
    memcpy(time, text, size);
    time[size] = '\0';
    options->mirror_over = MIRROR_OVER_SLOW;
    if (strcmp(text + size, ":fail") == 0)
        options->mirror_over = MIRROR_OVER_FAIL;
    else if (text[size] != '\0' && strcmp(text + size, ":slow") != 0)
        return false;
    return parse_duration_ms(time, 10, MAX_KEEP_CHANGES_MS, &options->mirror_lag_ms);
}

static bool parse_bucket(const char *text, void *field)
{
    *(const char **)field = text;
    return natskv_bucket_name_valid(text);
}

static bool parse_cache(const char *text, void *field)
{
    uint64_t *bytes = field;
    return parse_size(text, 0, OPTIONS_MAX_CACHE_BYTES, bytes) &&
           (*bytes == 0 || *bytes >= KVSTORE_MIN_CACHE_BYTES);
}

static bool parse_keep_changes(const char *text, void *field)
{
    return parse_duration_ms(text, 0, MAX_KEEP_CHANGES_MS, field);
}

static bool parse_keep_changes_bytes(const char *text, void *field)
{
    return parse_size(text, UINT64_C(1) << 20, UINT64_C(1) << 50, field);
}

static bool parse_worker_cpus(const char *text, void *field)
{
    return cpu_list_parse(text, field);
}

static bool parse_max_bytes(const char *text, void *field)
{
    uint64_t *bytes = field;
    return parse_size(text, 0, UINT64_MAX / 2, bytes) &&
           (*bytes == 0 || *bytes >= KVSTORE_MIN_BOUND_BYTES);
}

static bool parse_spin(const char *text, void *field)
{
    return wire_spin_parse(text, field);
}

/* The owner must read and write; others may only write: whoever reads a request queue can take
 * the requests of others. */
static bool parse_queue_mode(const char *text, void *field)
{
    char *end;
    unsigned long mode = strtoul(text, &end, 8);
    if (text[0] < '0' || text[0] > '7' || *end != '\0')
        return false;
    *(mode_t *)field = (mode_t)mode;
    return mode == 0600 || mode == 0620 || mode == 0622;
}

/* The groups that were found, as many as there are options that name one. */
static struct {
    struct {
        char name[64];
        gid_t gid;
    } found[2];
    unsigned next;
    bool forbidden; /* to look for others */
} groups;

static bool find_group(const char *name, gid_t *gid)
{
    for (unsigned i = 0; i < 2; i++)
        if (name[0] != '\0' && strcmp(name, groups.found[i].name) == 0) {
            *gid = groups.found[i].gid;
            return true;
        }
    const struct group *group = groups.forbidden ? NULL : getgrnam(name);
    if (!group || strlen(name) >= sizeof groups.found[0].name)
        return false;
    strcpy(groups.found[groups.next % 2].name, name);
    groups.found[groups.next++ % 2].gid = *gid = group->gr_gid;
    return true;
}

void options_forbid_lookups(void)
{
    groups.forbidden = true;
    user_names_use_files();
}

static bool parse_group(const char *text, void *field)
{
    uint64_t number;
    if (find_group(text, field))
        return true;
    if (!parse_u64(text, 0, UINT32_MAX - 1, &number))
        return false;
    *(gid_t *)field = (gid_t)number;
    return true;
}

static const char *advise_group(const char *text)
{
    (void)text;
    return groups.forbidden ? "; the daemon, once it runs, cannot look up names: give the number "
                              "(getent group NAME)"
                            : "";
}

/* The table ------------------------------------------------------------------------------------ */

#define FIELD(name) OPTION_FIELD(struct parsed_line, options.name)

static const struct option_row daemon_rows[] = {
    {"datafiles", 'd', OPTION_NUMBER, "D", "data files (default: the store's own, 4 for a new one)",
     FIELD(datafiles), .min = 1, .max = KVSTORE_MAX_DATAFILES, .section = "store",
     .page = HELP_TUNING},
    {"workers", 'w', OPTION_NUMBER, "M", "worker threads (default: the number of CPUs)",
     FIELD(workers), .min = 1, .max = OPTIONS_MAX_WORKERS, .section = "workers"},
    {"dir", 'f', OPTION_TEXT, "DIR", "data directory (default ./datafiles)", FIELD(dir), .min = 1,
     .expects = "a directory", .section = "store"},
    {"mq", 'm', OPTION_PARSED, "NAME",
     "request queue (default $MQKV_QUEUE, else " WIRE_DEFAULT_QUEUE_NAME ")", FIELD(queue),
     .parse = parse_queue, .expects = "'/' and then 1 to 64 letters, digits, '.', '_' or '-'",
     .section = "queues"},
    {"sync", 0, OPTION_PARSED, "WHEN", "none|interval[:MS]|always (default interval:1s)",
     .offset = offsetof(struct parsed_line, options), .parse = parse_sync,
     .expects = "none, interval, interval:MS (1 to 3600000) or always", .section = "store"},
    {"keep-changes", 0, OPTION_PARSED, "TIME",
     "how long clientk watch can read back changes that a compaction replaced (default 0)",
     FIELD(keep_changes_ms), .parse = parse_keep_changes,
     .expects = "0 or a time up to 30d (10m, 24h)", .section = "store", .page = HELP_TUNING},
    {"keep-changes-bytes", 0, OPTION_PARSED, "SIZE", "disk space for such changes (default 1G)",
     FIELD(keep_changes_bytes), .parse = parse_keep_changes_bytes,
     .expects = "a size from 1M to 1024T", .section = "store", .page = HELP_TUNING},
    {"verify", 0, OPTION_CHOICE, "WHEN",
     "first|every: which reads of values of 16 KiB and more are verified (default first)",
     FIELD(verify_every_read), .choice_name = verify_of, .section = "store", .page = HELP_TUNING},
    {"cache", 0, OPTION_PARSED, "SIZE", "memory for values that were read, 0: none (default 0)",
     FIELD(cache_bytes), .parse = parse_cache, .expects = "0 or a size from 64k to 1024G (16M, 1G)",
     .section = "store", .page = HELP_TUNING},
    {"as-cache", 0, OPTION_PARSED, "SIZE",
     "be a cache of SIZE: --max-bytes SIZE --evict s3fifo --sync none (default 0: no cache)",
     FIELD(as_cache_bytes), .parse = parse_max_bytes,
     .expects = "0 or a size of 64k or more (512M, 10G)", .section = "store"},
    {"max-bytes", 0, OPTION_PARSED, "SIZE",
     "most bytes of keys and values, overhead included (default 0: no bound)", FIELD(max_bytes),
     .parse = parse_max_bytes, .expects = "0 or a size of 64k or more (512M, 10G)",
     .section = "store"},
    {"evict", 0, OPTION_CHOICE, "WHAT",
     "none|ttl|s3fifo: what makes room at --max-bytes (default none: writes are refused)",
     FIELD(evict), .choice_name = evict_of, .section = "store"},
    {"ordered", 0, OPTION_FLAG, NULL,
     "keep keys in their order, too, for ranges: about 8 bytes of memory a key", FIELD(ordered),
     .section = "store"},
    {"io", 0, OPTION_CHOICE, "HOW",
     "mmap|pread|direct: files mapped, read by calls, or past the page cache (default mmap)",
     FIELD(io), .choice_name = io_of, .section = "store", .page = HELP_TUNING},
    {"lanes", 0, OPTION_CHOICE, "MODE",
     "auto|worker|shared: how requests reach the workers (default auto)", FIELD(lanes),
     .choice_name = lanes_mode_of, .section = "queues", .page = HELP_TUNING},
    {"sched", 0, OPTION_CHOICE, "ORDER", "fifo|priority: which request comes first (default fifo)",
     FIELD(sched), .choice_name = sched_of, .section = "workers", .page = HELP_STUDIES},
    {"nice", 0, OPTION_FLAG, NULL, "a request's priority sets its worker's nice value", FIELD(nice),
     .section = "workers", .page = HELP_STUDIES},
    {"cpus", 0, OPTION_PARSED, "LIST", "run on these CPUs only: 0, 0,2 or 0-3 (default all)",
     FIELD(cpus), .parse = parse_worker_cpus, .expects = CPU_LIST_EXPECTS, .section = "workers",
     .page = HELP_TUNING},
    {"spin", 0, OPTION_PARSED, "HOW",
     "auto|off|USEC: polling before a worker sleeps (default auto)", FIELD(spin),
     .parse = parse_spin, .expects = "auto, off or microseconds, 1 to 100000", .section = "queues",
     .page = HELP_TUNING},
    {"replies", 0, OPTION_CHOICE, "HOW",
     "auto|queue|shared: replies through shared memory to clients of this user (default auto)",
     FIELD(replies), .choice_name = wire_replies_name, .section = "queues", .page = HELP_TUNING},
    {"max-value", 0, OPTION_SIZE, "SIZE", "largest value, at most 64M (default 1M)",
     FIELD(max_value_bytes), .min = 1, .max = KVSTORE_MAX_VALUE_BYTES, .section = "store"},
    {"direct", 0, OPTION_CHOICE, "WHOM",
     "off|owner|group: who may read the store without the daemon (default owner)",
     OPTION_FIELD(struct parsed_line, direct), .choice_name = direct_choice_name,
     .section = "store"},
    {"mode", 0, OPTION_PARSED, "OCTAL",
     "mode of the request queues: 0600, 0620, 0622 (default 0600)", FIELD(mode),
     .parse = parse_queue_mode,
     .expects = "0600, 0620 or 0622 (whoever can read a request queue can steal requests)",
     .section = "queues"},
    {"group", 0, OPTION_PARSED, "GROUP", "group of the request queues, for --mode 0620",
     FIELD(group), .parse = parse_group, .expects = "a group's name or number",
     .advise = advise_group, .section = "queues"},
    {"read-group", 0, OPTION_PARSED, "GROUP", "group that may only read (default: none)",
     FIELD(read_group), .parse = parse_group, .expects = "a group's name or number",
     .advise = advise_group, .section = "queues"},
    {"engine", 0, OPTION_CHOICE, "WHICH",
     "kvstore|nats: data in --dir, or in a NATS cluster (default kvstore)", FIELD(engine),
     .choice_name = engine_of, .section = "cluster"},
    {"nats", 0, OPTION_TEXT, "URL,...", "servers of the cluster (nats://host:4222, tls://host)",
     FIELD(nats.urls), .min = 1, .expects = "URLs, separated by commas", .section = "cluster"},
    {"bucket", 0, OPTION_PARSED, "NAME", "bucket of the cluster that has the data",
     FIELD(nats.bucket), .parse = parse_bucket, .expects = "1 to 64 letters, digits, '_' or '-'",
     .section = "cluster"},
    {"shards", 0, OPTION_NUMBER, "S", "streams of a new bucket (default 4)", FIELD(nats.shards),
     .min = 1, .max = NATSKV_MAX_SHARDS, .section = "cluster", .page = HELP_TUNING},
    {"replicas", 0, OPTION_NUMBER, "R", "servers that have each key of a new bucket (default 1)",
     FIELD(nats.replicas), .min = 1, .max = NATSKV_MAX_REPLICAS, .section = "cluster"},
    {"reads", 0, OPTION_CHOICE, "WHERE",
     "leader|any: any replica is faster, and may be behind (default leader)", FIELD(nats.read_any),
     .choice_name = reads_of, .section = "cluster", .page = HELP_TUNING},
    {"mirror", 0, OPTION_TEXT, "URL,...",
     "keep a second copy of the store in --bucket of this cluster", FIELD(mirror), .min = 1,
     .expects = "URLs, separated by commas", .section = "cluster"},
    {"mirror-lag", 0, OPTION_PARSED, "TIME[:slow|:fail]",
     "if the copy is further behind, writes are slowed down (slow) or fail (default: no bound)",
     .offset = offsetof(struct parsed_line, options), .parse = parse_mirror_lag,
     .expects = "a time from 10ms to 30d, then perhaps :slow or :fail", .section = "cluster",
     .page = HELP_TUNING},
    {"restore-from", 0, OPTION_TEXT, "URL,...",
     "build the store in --dir from --bucket of this cluster, and exit", FIELD(restore_from),
     .min = 1, .expects = "URLs, separated by commas"},
    {"restore-unfinished", 0, OPTION_FLAG, NULL,
     "with --restore-from: accept a copy that is incomplete", FIELD(restore_unfinished),
     .page = HELP_TUNING},
    {"nats-sync", 0, OPTION_CHOICE, "WHEN",
     "interval|always: how the servers' sync_interval is set (default interval)",
     FIELD(nats.synced), .choice_name = nats_sync_of, .section = "cluster", .page = HELP_TUNING},
    {"nats-cluster", 0, OPTION_TEXT, "NAME", "refuse a cluster of another name",
     FIELD(nats.cluster), .min = 1, .expects = "a name", .section = "cluster", .page = HELP_TUNING},
    {"nats-creds", 0, OPTION_TEXT, "FILE", "credentials: a JWT and its key",
     FIELD(nats.credentials), .min = 1, .expects = "a file", .section = "cluster",
     .page = HELP_TUNING},
    {"nats-nkey", 0, OPTION_TEXT, "KEY:FILE", "an NKey: the public one, and a file with the seed",
     FIELD(nats.nkey), .min = 1, .expects = "PUBLICKEY:FILE", .section = "cluster",
     .page = HELP_TUNING},
    {"nats-user", 0, OPTION_TEXT, "NAME", "user of the cluster", FIELD(nats.user), .min = 1,
     .expects = "a name", .section = "cluster", .page = HELP_TUNING},
    {"nats-password-file", 0, OPTION_TEXT, "FILE", "file whose first line is the password",
     FIELD(nats.password_file), .min = 1, .expects = "a file", .section = "cluster",
     .page = HELP_TUNING},
    {"nats-ca", 0, OPTION_TEXT, "FILE", "TLS: certificates to trust", FIELD(nats.ca), .min = 1,
     .expects = "a PEM file", .section = "cluster", .page = HELP_TUNING},
    {"nats-cert", 0, OPTION_TEXT, "FILE", "TLS: certificate of this daemon",
     FIELD(nats.certificate), .min = 1, .expects = "a PEM file", .section = "cluster",
     .page = HELP_TUNING},
    {"nats-key", 0, OPTION_TEXT, "FILE", "TLS: the key of that certificate", FIELD(nats.key),
     .min = 1, .expects = "a PEM file", .section = "cluster", .page = HELP_TUNING},
    {"daemon", 0, OPTION_FLAG, NULL, "go to the background once ready", FIELD(daemon),
     .section = "process"},
    {"pidfile", 0, OPTION_TEXT, "FILE", "write the pid to FILE, which is removed at the end",
     FIELD(pidfile), .min = 1, .expects = "a file", .section = "process"},
    {"idle-exit", 0, OPTION_DURATION_MS, "TIME",
     "stop when nobody has been connected for TIME, 0: never (default 0)", FIELD(idle_exit_ms),
     .max = UINT64_C(30) * 24 * 3600 * 1000, .section = "process"},
    {"sandbox", 0, OPTION_CHOICE, "WHETHER",
     "on|off: give up files and system calls that are not needed (default on)", FIELD(sandbox),
     .choice_name = sandbox_choice_name, .section = "process", .page = HELP_TUNING},
    {"core-dumps", 0, OPTION_FLAG, NULL, "a crash may leave a core file, with values in it",
     FIELD(core_dumps), .section = "process", .page = HELP_TUNING},
    {"log", 0, OPTION_TEXT, "FILE",
     "log to FILE instead of standard error; SIGHUP and SIGUSR1 reopen it", FIELD(log), .min = 1,
     .expects = "a file", .section = "log"},
    {"metrics", 0, OPTION_TEXT, "FILE", "write statistics for Prometheus to FILE every 10 s",
     FIELD(metrics), .min = 1, .expects = "a file", .section = "log"},
    {"slow", 0, OPTION_DURATION_MS, "TIME",
     "record requests whose work takes this long or longer, 0: none (default 100ms)",
     FIELD(slow_ms), .max = 3600000, .section = "log", .page = HELP_TUNING},
    {"audit", 0, OPTION_TEXT, "FILE", "record in FILE who connects, is refused and leaves",
     FIELD(audit), .min = 1, .expects = "a file", .section = "log"},
    {"config", 'c', OPTION_TEXT, "FILE", "read options that are not on the command line from FILE",
     FIELD(config), .min = 1, .expects = "a file"},
    {"check", 0, OPTION_FLAG, NULL, "print the options; check limits and store, then exit",
     FIELD(check)},
    {"verbose", 'v', OPTION_FLAG, NULL, "log the beginning and end of sessions, too",
     FIELD(verbose), .section = "log"},
    {"version", 'V', OPTION_STOP, NULL, "print the version",
     OPTION_FIELD(struct parsed_line, version)},
    {"help", 'h', OPTION_STOP, NULL, "print this; -h tuning and -h studies: the other options",
     OPTION_FIELD(struct parsed_line, help)},
    {.name = NULL},
};

#define DAEMON_ROWS (sizeof daemon_rows / sizeof daemon_rows[0] - 1)
_Static_assert(DAEMON_ROWS + LAB_MAX_ROWS < OPTIONS_MAX,
               "a place in the table, and an origin, for each");

static struct option_row joined_rows[OPTIONS_MAX];
const struct option_row *const options_rows = joined_rows;

static const struct option_row *row_named(const char *name)
{
    const struct option_row *row = joined_rows;
    while (row->name && strcmp(row->name, name) != 0)
        row++;
    return row->name ? row : NULL;
}

/* Before main begins, so that no thread sees half a table. */
__attribute__((constructor)) static void join_option_tables(void)
{
    memcpy(joined_rows, daemon_rows, sizeof daemon_rows);
    for (struct option_row *row = joined_rows; lab.sched_help && row->name; row++)
        if (strcmp(row->name, "sched") == 0)
            row->help = lab.sched_help;
    for (size_t i = 0; lab.rows[i].name; i++) {
        KV_ASSERT(i < LAB_MAX_ROWS && !row_named(lab.rows[i].name));
        joined_rows[DAEMON_ROWS + i] = lab.rows[i];
        joined_rows[DAEMON_ROWS + i].page = HELP_STUDIES;
    }
}

void options_print_help(FILE *stream, enum help_page page, int columns)
{
    const struct option_heading headings[] = {{"The store:", "store", page},
                                              {"Queues, and who may use them:", "queues", page},
                                              {"Workers:", "workers", page},
                                              {"The process:", "process", page},
                                              {"Log and statistics:", "log", page},
                                              {"More than one host:", "cluster", page},
                                              {"On the command line only:", NULL, page}};
    for (size_t i = 0; i < sizeof headings / sizeof headings[0]; i++)
        option_print_section(stream, options_rows, &headings[i], columns);
}

unsigned options_index(const char *name)
{
    const struct option_row *row = row_named(name);
    KV_ASSERT(row);
    return (unsigned)(row - joined_rows);
}

const char *options_text_of(const struct server_options *options, const char *name)
{
    const char *text = options->origins[options_index(name)].text;
    return text ? text : "";
}

void parsed_line_begin(struct parsed_line *line)
{
    *line = (struct parsed_line){.direct = -1};
    line->options = (struct server_options){
        .dir = "./datafiles",
        .dispatch = &dispatch_pool,
        .durability = KVSTORE_SYNC_INTERVAL,
        .sync_interval_ms = 1000,
        .io = KVSTORE_IO_MMAP,
        .lanes = LANES_AUTO,
        .sched = ORDER_FIFO,
        .spin = {.mode = WIRE_SPIN_AUTO},
        .max_value_bytes = KVSTORE_DEFAULT_MAX_VALUE_BYTES,
        .mode = 0600,
        .group = (gid_t)-1,
        .read_group = (gid_t)-1,
        .sandbox = true,
        .slow_ms = OPTIONS_DEFAULT_SLOW_MS,
    };
    lab.begin(line);
}

const struct option_row *options_find(const char *name)
{
    const struct option_row *row = row_named(name);
    return row && row->section ? row : NULL;
}

void options_free(struct server_options *options)
{
    access_rules_free(options->access);
    for (unsigned i = 0; i < OPTIONS_MAX; i++)
        if (options->origins[i].file)
            free((void *)(uintptr_t)options->origins[i].text);
    free(options->words);
    *options = (struct server_options){.words = NULL};
}

#include "clientk/program/cli/foreign.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *names; /* the names, with blanks between them */
    const char *advice;
} foreign[] = {
    {"keys", "scan --keys lists keys, scan --keys --match '*PATTERN*' those that match"},
    {"dbsize", "count prints how many entries there are"},
    {"randomkey", "scan --keys --limit 1 prints one key"},
    {"info", "stats shows the server's statistics, doctor checks what clients need"},
    {"mget gets gat gats",
     "get KEY... reads several keys, --together as of one moment, and a batch takes GET lines"},
    {"mset msetnx",
     "transact -- put KEY VALUE -- put KEY VALUE stores several keys as one; PUT lines of a "
     "batch travel together"},
    {"setex psetex", "use put KEY VALUE --ttl DURATION"},
    {"setnx", "use put KEY VALUE --if-absent"},
    {"replace", "use put KEY VALUE --if-present"},
    {"cas watch", "get -v KEY shows the version, put KEY VALUE --if-version VERSION depends on it"},
    {"incrby", "use incr KEY BY"},
    {"decrby", "use decr KEY BY"},
    {"incrbyfloat", "counters are whole numbers, incr KEY BY"},
    {"unlink", "use del KEY..."},
    {"getdel", "use get KEY and del KEY"},
    {"flushall flushdb flush_all",
     "clear --yes deletes all entries, clear PREFIX --yes those that begin so"},
    {"pexpire", "use touch KEY DURATION, such as 250ms, 30s or 5m"},
    {"expireat pexpireat expiretime pexpiretime",
     "put KEY VALUE --expires-at MS sets the time of expiry, get -v KEY shows it"},
    {"getex", "use get KEY, then touch KEY DURATION"},
    {"pttl", "ttl KEY answers in milliseconds"},
    {"strlen", "exists -v KEY shows the size"},
    {"type object", "every value is a string of bytes; exists -v KEY shows its size"},
    {"select use", "a server has one store; another server has another queue (clientk -m NAME)"},
    {"auth acl hello",
     "uid and the mode of the queue decide who may use a server (serverk --mode)"},
    {"rename renamenx copy", "get KEY, then transact -- put NEW VALUE -- del KEY"},
    {"echo", "ping times a round trip"},
    {"prepend setrange getrange substr getbit setbit bitcount",
     "get and put take the whole value, append KEY VALUE adds to it"},
    {"hset hget hgetall hdel hmset hmget hincrby lpush rpush lpop rpop lrange llen sadd srem "
     "smembers sismember zadd zrange zrem xadd xread",
     "a value is one string of bytes; give each field a key such as user:7:name, scan user:7: "
     "lists them"},
    {"multi exec discard unwatch",
     "begin, steps, commit are one transaction; transact does it in one line"},
    {"eval evalsha script fcall",
     "add --min --max and put --if-version change an entry depending on what it is"},
    {"subscribe psubscribe publish", "it has no channels; watch shows what changes"},
    {"monitor", "watch shows what changes, hotkeys what is asked for, top what the server does"},
    {"save bgsave bgrewriteaof lastsave",
     "sync waits until every write is on disk, dump FILE writes a copy"},
    {"slowlog", "slow lists slow requests (serverk --slow)"},
    {"shutdown", "serverk stops at SIGTERM (kill PID; doctor shows the pid)"},
    {"client", "sessions lists who is connected, kill SESSION ends one"},
    {"cluster latency memory debug module command",
     "options belong to serverk(1), stats shows what the server does"},
};

static bool holds(const char *names, const char *name)
{
    size_t size = strlen(name);
    while (*names) {
        size_t length = strcspn(names, " ");
        if (length == size && strncasecmp(names, name, size) == 0)
            return true;
        names += length + (names[length] == ' ');
    }
    return false;
}

const char *foreign_advice(const char *name)
{
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (holds(foreign[i].names, name))
            return foreign[i].advice;
    return NULL;
}

const char *foreign_option(const char *word)
{
    static const char *const options[][2] = {
        {"--ex", "--ttl=60s"},
        {"--px", "--ttl=500ms"},
        {"--exat", "--expires-at=MILLISECONDS"},
        {"--pxat", "--expires-at=MILLISECONDS"},
        {"--expire", "--ttl=60s"},
        {"--expires", "--ttl=60s"},
        {"--nx", "--if-absent"},
        {"--xx", "--if-present"},
        {"--keepttl", "--keep-ttl"},
    };
    size_t size = strcspn(word, "=");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (strlen(options[i][0]) == size && strncasecmp(options[i][0], word, size) == 0)
            return options[i][1];
    return NULL;
}

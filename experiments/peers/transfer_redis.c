/* Redis through hiredis: WATCH and MULTI, each of the two round trips one write; or a script. */
#include <err.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/parse.h"
#include "experiments/peers/transfer.h"

#define SHA_BYTES 40u

static const char script[] = "if tonumber(redis.call('GET', KEYS[1])) < tonumber(ARGV[1]) then "
                             "return redis.error_reply('too little') end "
                             "redis.call('DECRBY', KEYS[1], ARGV[1]) "
                             "return redis.call('INCRBY', KEYS[2], ARGV[1])";

struct redis_link {
    redisContext *context;
    char sha[SHA_BYTES + 1]; /* of the script */
};

static redisReply *checked(const struct redis_link *link, void *answer)
{
    redisReply *reply = answer;

    if (!reply)
        errx(4, "redis: %s", link->context->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        errx(4, "redis: %s", reply->str);
    return reply;
}

static redisReply *next_reply(const struct redis_link *link)
{
    void *reply = NULL;

    redisGetReply(link->context, &reply);
    return checked(link, reply);
}

static void *redis_connect(const char *address, const char *option)
{
    struct redis_link *link = calloc(1, sizeof *link);

    (void)option;
    if (!link)
        err(4, "redis");
    link->context = redisConnectUnix(address);
    if (!link->context || link->context->err)
        errx(4, "redis: %s", link->context ? link->context->errstr : "no memory");
    redisReply *reply = checked(link, redisCommand(link->context, "SCRIPT LOAD %s", script));
    if (reply->len != SHA_BYTES)
        errx(4, "redis: SCRIPT LOAD gives %zu bytes", reply->len);
    memcpy(link->sha, reply->str, SHA_BYTES);
    freeReplyObject(reply);
    return link;
}

static void redis_disconnect(void *connection)
{
    struct redis_link *link = connection;

    redisFree(link->context);
    free(link);
}

static void redis_open_accounts(void *connection)
{
    const struct redis_link *link = connection;

    for (unsigned i = 0; i < ACCOUNTS; i++)
        freeReplyObject(checked(
            link, redisCommand(link->context, "SET %s %d", account_name(i), OPENING_BALANCE)));
}

static int64_t number_in(const redisReply *reply)
{
    int64_t number;

    if (reply->type != REDIS_REPLY_STRING || !parse_i64_bytes(reply->str, reply->len, &number))
        errx(4, "redis: a balance is no number");
    return number;
}

/* False: one of the accounts has changed meanwhile. */
static bool try_transfer(const struct redis_link *link, const char *from, const char *to,
                         int64_t amount)
{
    redisAppendCommand(link->context, "WATCH %s %s", from, to);
    redisAppendCommand(link->context, "MGET %s %s", from, to);
    freeReplyObject(next_reply(link));
    redisReply *reply = next_reply(link);
    int64_t rest = number_in(reply->element[0]) - amount;
    int64_t sum = number_in(reply->element[1]) + amount;
    freeReplyObject(reply);
    if (rest < 0)
        errx(4, "redis: too little");
    redisAppendCommand(link->context, "MULTI");
    redisAppendCommand(link->context, "SET %s %" PRId64, from, rest);
    redisAppendCommand(link->context, "SET %s %" PRId64, to, sum);
    redisAppendCommand(link->context, "EXEC");
    for (unsigned i = 0; i < 3; i++)
        freeReplyObject(next_reply(link));
    reply = next_reply(link);
    bool done = reply->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return done;
}

static void watch_transfer(void *connection, const char *from, const char *to, int64_t amount)
{
    while (!try_transfer(connection, from, to, amount))
        ;
}

static void script_transfer(void *connection, const char *from, const char *to, int64_t amount)
{
    const struct redis_link *link = connection;

    freeReplyObject(checked(link, redisCommand(link->context, "EVALSHA %s 2 %s %s %" PRId64,
                                               link->sha, from, to, amount)));
}

static int64_t redis_balance(void *connection, const char *account)
{
    const struct redis_link *link = connection;
    redisReply *reply = checked(link, redisCommand(link->context, "GET %s", account));
    int64_t number = number_in(reply);

    freeReplyObject(reply);
    return number;
}

#define REDIS_BANK(name, transfer)                                                       \
    {                                                                                    \
        name, "", false, redis_connect, redis_disconnect, redis_open_accounts, transfer, \
            redis_balance                                                                \
    }

const struct bank redis_banks[] = {
    REDIS_BANK("redis-watch", watch_transfer), REDIS_BANK("redis-script", script_transfer), {0}};

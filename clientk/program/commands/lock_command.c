#include "clientk/program/commands/lock_command.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clientk/program/cli/interrupt.h"
#include "clientk/program/commands/child_program.h"
#include "common/numbers/random.h"
#include "common/report/error.h"
#include "common/text/escape.h"
#include "common/time/clock.h"

#define NAME      "lock"
#define KEY_BYTES 65535u

/* How often a lock that another one has is looked at: reads in place cost no message. */
#define LOOK_FIRST_MS 2
#define LOOK_LAST_MS  100

/* The longest time until the server is asked again. */
#define RETRY_MS 100u

/* So many times within its lease the holder says that it is there. */
#define RENEWALS 3

#define LOCK_FIELD(member) OPTION_FIELD(struct lock_options, member)

const struct option_row lock_option_rows[] = {
    {"lease", 0, OPTION_DURATION_MS, "DURATION",
     "free so long after its holder was killed; renewed meanwhile (default 30s)",
     LOCK_FIELD(lease_ms), .min = 100, .max = 7 * UINT64_C(86400000)},
    {"wait-for", 0, OPTION_DURATION_MS, "DURATION", "wait so long for the lock at most",
     LOCK_FIELD(wait_ms), .min = 1, .max = UINT32_MAX},
    {"no-wait", 'n', OPTION_FLAG, NULL, "do not wait for the lock", LOCK_FIELD(no_wait)},
    {"prefix", 0, OPTION_TEXT, "PREFIX",
     "that of Python's Cache (default cache:; '' for a Cache of a directory)", LOCK_FIELD(prefix),
     .expects = "a prefix"},
    {.name = NULL},
};
const struct lock_options lock_option_defaults = {.lease_ms = 30000, .prefix = "cache:"};

struct held_lock {
    struct clientk *client;
    uint64_t lease_ms;
    struct kv_slice key;
    char token[24]; /* the value of the entry */
    uint64_t version;
    uint64_t until_ms; /* on the clock of clock_monotonic_ns, when the lease ends at the earliest */
};

static uint64_t now_ms(void)
{
    return clock_monotonic_ns() / 1000000;
}

/* Puts the entry, with a new lease. */
static enum kv_status put_token(struct held_lock *lock, uint64_t if_version)
{
    const uint64_t begin_ms = now_ms();
    const struct clientk_write_options options = {.if_absent = if_version == 0,
                                                  .if_version = if_version,
                                                  .expiry_ms =
                                                      clock_realtime_ms() + lock->lease_ms};
    uint64_t version = 0;
    enum kv_status status =
        clientk_put(lock->client, lock->key, kv_slice_from_string(lock->token), &options, &version);
    if (status == KV_OK) {
        lock->version = version;
        lock->until_ms = begin_ms + lock->lease_ms;
    }
    return status;
}

/* Looks whose the entry is. KV_OK: this one's, whose version is now known; KV_EXISTS: another's;
 * KV_NOT_FOUND: nobody's; or what clientk_get returns. */
static enum kv_status look_at_lock(struct held_lock *lock)
{
    struct clientk_value value = {0};
    enum kv_status status = clientk_get(lock->client, lock->key, &value);
    bool is_own = status == KV_OK && value.size == strlen(lock->token) &&
                  memcmp(value.data, lock->token, value.size) == 0;
    if (is_own)
        lock->version = value.version;
    else if (status == KV_OK)
        status = KV_EXISTS;
    clientk_value_free(&value);
    return status;
}

/* The answer to the put may have been lost, and the put been made. */
static bool may_have_been_put(enum kv_status status)
{
    return status == KV_EXISTS || status == KV_OUTCOME_UNKNOWN || status == KV_TIMEOUT;
}

/* KV_OK: this one has the lock; KV_EXISTS: another has. */
static enum kv_status try_lock(struct held_lock *lock)
{
    enum kv_status status = look_at_lock(lock);
    if (status == KV_NOT_FOUND)
        status = put_token(lock, 0);
    if (may_have_been_put(status))
        status = look_at_lock(lock);
    if (status == KV_OK && lock->until_ms == 0)
        return put_token(lock, lock->version); /* its lease begins at a moment that is known */
    return status == KV_NOT_FOUND ? KV_EXISTS : status;
}

static enum kv_status await_lock(struct held_lock *lock, const struct lock_options *options)
{
    const uint64_t begin_ms = now_ms();
    enum kv_status status;
    for (long pause_ms = LOOK_FIRST_MS;;
         pause_ms = pause_ms < LOOK_LAST_MS ? pause_ms * 2 : pause_ms) {
        status = try_lock(lock);
        bool is_over = options->no_wait || interrupt_pending() ||
                       (options->wait_ms > 0 && now_ms() - begin_ms >= options->wait_ms);
        if (status != KV_EXISTS || is_over)
            return status;
        const struct timespec pause = {
            .tv_nsec = (pause_ms < LOOK_LAST_MS ? pause_ms : LOOK_LAST_MS) * 1000000L};
        nanosleep(&pause, NULL);
    }
}

/* Begins the lease anew. False: the lock is lost: another has it, or nobody, or the server was not
 * reached before its end. */
static bool renew_lock(struct held_lock *lock)
{
    enum kv_status status = put_token(lock, lock->version);
    if (status != KV_OK && (status = look_at_lock(lock)) == KV_OK)
        status = put_token(lock, lock->version);
    return status != KV_EXISTS && status != KV_NOT_FOUND && now_ms() < lock->until_ms;
}

/* Renews the lease three times while it runs, and again soon when that failed. */
static int until_renewal_ms(const struct held_lock *lock)
{
    const uint64_t now = now_ms(), rest_ms = lock->lease_ms - lock->lease_ms / RENEWALS;
    const uint64_t left_ms = lock->until_ms > now ? lock->until_ms - now : 0;
    const uint64_t soon_ms = left_ms < RETRY_MS ? left_ms : RETRY_MS;
    return (int)(left_ms > rest_ms ? left_ms - rest_ms : soon_ms);
}

/* False: it was lost before. */
static bool give_lock_back(struct held_lock *lock)
{
    for (unsigned tries = 0; tries < 3; tries++) {
        const struct clientk_write_options options = {.if_version = lock->version};
        if (clientk_delete(lock->client, lock->key, &options, NULL) == KV_OK)
            return true;
        enum kv_status status = look_at_lock(lock);
        if (status == KV_NOT_FOUND)
            return tries > 0 || now_ms() < lock->until_ms; /* by the first try, unanswered */
        if (status == KV_EXISTS)
            return false;
    }
    fputs("clientk: lock: the lock could not be given back: it is free when its lease is over\n",
          stderr);
    return now_ms() < lock->until_ms;
}

static void say_lost(const char *name, bool goes_on)
{
    fprintf(stderr, "clientk: lock: ");
    escape_print_text(stderr, name);
    fprintf(stderr,
            ": the lock was lost: its entry was deleted or replaced, or its lease (--lease) "
            "ended while the server could not be reached%s\n",
            goes_on ? "; the program gets SIGTERM" : "");
}

/* Runs the program while the lease is renewed. Returns the exit code. */
static int run_with_lock(struct cli_context *context, struct held_lock *lock,
                         const struct word *operands, size_t count)
{
    struct child_program child;
    struct kv_error error = {0};
    enum kv_status status = child_program_start(&child, operands + 1, count - 1, &error);
    if (status != KV_OK) {
        give_lock_back(lock);
        output_failure(&context->output, NAME, KV_IO, error.text);
        return child_program_failure_code(&error);
    }
    bool holds = true;
    while (!child_program_wait(&child, holds ? until_renewal_ms(lock) : -1)) {
        holds = renew_lock(lock);
        if (!holds) {
            say_lost(operands[0].data, true);
            child_program_stop(&child);
        }
    }
    if (holds && !give_lock_back(lock)) {
        holds = false;
        say_lost(operands[0].data, false);
    }
    child_program_end(&child);
    return holds ? child.exit_code : EXIT_REFUSED;
}

int lock_run(struct cli_context *context, const void *options_given, const struct word *operands,
             size_t count)
{
    const struct lock_options *options = options_given;
    char key[KEY_BYTES + 1];
    int size = snprintf(key, sizeof key, "%sks%s", options->prefix, operands[0].data);
    if (operands[0].size == 0 || strlen(operands[0].data) != operands[0].size || size < 0 ||
        (size_t)size >= sizeof key)
        return output_failure(
            &context->output, NAME, KV_BAD_KEY,
            "the name of a lock has from 1 to 65,000 bytes, none of which is NUL");
    int code = cli_connect_for(context, NAME);
    if (code != EXIT_DONE)
        return code;
    struct held_lock lock = {.client = context->client,
                             .lease_ms = options->lease_ms,
                             .key = kv_slice(key, (size_t)size)};
    snprintf(lock.token, sizeof lock.token, "s%016" PRIx64, random_secret());
    enum kv_status status = await_lock(&lock, options);
    if (interrupt_pending() && status == KV_OK)
        give_lock_back(&lock);
    if (interrupt_pending())
        return output_failure(&context->output, NAME, KV_TIMEOUT, "interrupted");
    if (status == KV_EXISTS)
        return output_failure(&context->output, NAME, status, "another has the lock");
    if (status != KV_OK)
        return output_failure(&context->output, NAME, status, cli_sentence(status));
    return run_with_lock(context, &lock, operands, count);
}

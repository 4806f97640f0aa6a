/*
 * transfer_load: threads move money between random accounts of one system for some time, each
 * transfer a transaction; then the balances are summed up: a wrong sum is an error. A CSV header
 * and one row on stdout.
 *
 *     transfer_load BANK ADDRESS THREADS SECONDS SEED
 */
#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/histogram.h"
#include "common/numbers/random.h"
#include "common/text/parse.h"
#include "common/time/clock.h"
#include "experiments/peers/load_row.h"
#include "experiments/peers/transfer.h"

#define MAX_TRANSFER 10u
#define MAX_SECONDS  86400.0

struct clerk {
    const struct bank *bank;
    void *connection;
    uint64_t seed, end_ns;
    pthread_t thread;
    struct histogram latency;
};

/* The first call, before there are threads, makes all names. */
const char *account_name(unsigned account)
{
    static char names[ACCOUNTS][sizeof "account000"];

    if (names[ACCOUNTS - 1][0] == '\0')
        for (unsigned i = 0; i < ACCOUNTS; i++)
            snprintf(names[i], sizeof names[i], "account%03u", i % ACCOUNTS);
    return names[account];
}

static const struct bank *find_bank(const char *name)
{
    static const struct bank *const tables[] = {mqkv_banks, redis_banks, sqlite_banks, lmdb_banks};

    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        for (const struct bank *bank = tables[i]; bank->name; bank++)
            if (strcmp(bank->name, name) == 0)
                return bank;
    return NULL;
}

static void *serve(void *argument)
{
    struct clerk *clerk = argument;
    struct random_state random;

    random_seed(&random, clerk->seed);
    for (uint64_t start_ns = clock_monotonic_ns(); start_ns < clerk->end_ns;) {
        unsigned from = (unsigned)random_below(&random, ACCOUNTS);
        unsigned to = (from + 1 + (unsigned)random_below(&random, ACCOUNTS - 1)) % ACCOUNTS;
        int64_t amount = 1 + (int64_t)random_below(&random, MAX_TRANSFER);
        clerk->bank->transfer(clerk->connection, account_name(from), account_name(to), amount);
        uint64_t done_ns = clock_monotonic_ns();
        histogram_record(&clerk->latency, done_ns - start_ns);
        start_ns = done_ns;
    }
    return NULL;
}

static void run_clerks(struct clerk *clerks, uint64_t threads, double seconds)
{
    struct histogram latency = {0};
    uint64_t start_ns = clock_monotonic_ns();

    for (uint64_t i = 0; i < threads; i++) {
        clerks[i].end_ns = start_ns + (uint64_t)(seconds * 1e9);
        if (pthread_create(&clerks[i].thread, NULL, serve, &clerks[i]) != 0)
            errx(4, "cannot start a thread");
    }
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(clerks[i].thread, NULL);
        histogram_merge(&latency, &clerks[i].latency);
    }
    double took_s = (double)(clock_monotonic_ns() - start_ns) / 1e9;
    load_row_print(threads, &latency, took_s);
}

static void check_sum(const struct bank *bank, void *connection)
{
    int64_t sum = 0, right = (int64_t)ACCOUNTS * OPENING_BALANCE;

    for (unsigned i = 0; i < ACCOUNTS; i++)
        sum += bank->balance(connection, account_name(i));
    if (sum != right)
        errx(4, "%s: the sum of balances is %" PRId64 ", not %" PRId64, bank->name, sum, right);
}

int main(int argc, char **argv)
{
    const struct bank *bank = argc == 6 ? find_bank(argv[1]) : NULL;
    uint64_t threads, seed;
    double seconds;

    if (!bank || !parse_u64(argv[3], 1, 256, &threads) ||
        !parse_double(argv[4], 0, MAX_SECONDS, &seconds) ||
        !parse_u64(argv[5], 0, UINT64_MAX, &seed))
        errx(2, "usage: transfer_load BANK ADDRESS THREADS SECONDS SEED");
    struct clerk *clerks = calloc(threads, sizeof *clerks);
    if (!clerks)
        err(4, "calloc");
    for (uint64_t i = 0; i < threads; i++) {
        clerks[i].bank = bank;
        clerks[i].seed = seed * 1000 + i;
        clerks[i].connection =
            i > 0 && bank->shared ? clerks[0].connection : bank->connect(argv[2], bank->option);
    }
    bank->open_accounts(clerks[0].connection);
    run_clerks(clerks, threads, seconds);
    check_sum(bank, clerks[0].connection);
    for (uint64_t i = 0; i < (bank->shared ? 1 : threads); i++)
        bank->disconnect(clerks[i].connection);
    free(clerks);
    return 0;
}

/* LMDB, one environment for all threads: it has them take turns. */
#include <err.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#include "experiments/peers/transfer.h"

#define BANK_MAX_BYTES ((size_t)64 << 20)

struct lmdb_bank {
    MDB_env *environment;
    MDB_dbi table;
};

static void bank_check(int status)
{
    if (status != 0)
        errx(4, "lmdb: %s", mdb_strerror(status));
}

static MDB_txn *bank_begin(const struct lmdb_bank *bank)
{
    MDB_txn *transaction;

    bank_check(mdb_txn_begin(bank->environment, NULL, 0, &transaction));
    return transaction;
}

/* option: sync, or nosync, with what makes that fastest. */
static void *bank_connect(const char *address, const char *option)
{
    struct lmdb_bank *bank = calloc(1, sizeof *bank);

    if (!bank)
        err(4, "lmdb");
    bank_check(mdb_env_create(&bank->environment));
    bank_check(mdb_env_set_mapsize(bank->environment, BANK_MAX_BYTES));
    unsigned flags = strcmp(option, "sync") == 0 ? 0 : MDB_WRITEMAP | MDB_NOSYNC;
    bank_check(mdb_env_open(bank->environment, address, flags, 0600));
    MDB_txn *transaction = bank_begin(bank);
    bank_check(mdb_dbi_open(transaction, NULL, 0, &bank->table));
    bank_check(mdb_txn_commit(transaction));
    return bank;
}

static void bank_disconnect(void *connection)
{
    struct lmdb_bank *bank = connection;

    mdb_env_close(bank->environment);
    free(bank);
}

static int64_t bank_get(const struct lmdb_bank *bank, MDB_txn *transaction, const char *account)
{
    MDB_val key = {strlen(account), (void *)(uintptr_t)account}, value;
    int64_t number;

    bank_check(mdb_get(transaction, bank->table, &key, &value));
    memcpy(&number, value.mv_data, sizeof number);
    return number;
}

static void bank_put(const struct lmdb_bank *bank, MDB_txn *transaction, const char *account,
                     int64_t number)
{
    MDB_val key = {strlen(account), (void *)(uintptr_t)account}, value = {sizeof number, &number};

    bank_check(mdb_put(transaction, bank->table, &key, &value, 0));
}

static void bank_open_accounts(void *connection)
{
    MDB_txn *transaction = bank_begin(connection);

    for (unsigned i = 0; i < ACCOUNTS; i++)
        bank_put(connection, transaction, account_name(i), OPENING_BALANCE);
    bank_check(mdb_txn_commit(transaction));
}

static void bank_transfer(void *connection, const char *from, const char *to, int64_t amount)
{
    MDB_txn *transaction = bank_begin(connection);
    int64_t rest = bank_get(connection, transaction, from) - amount;

    if (rest < 0)
        errx(4, "lmdb: too little");
    bank_put(connection, transaction, from, rest);
    bank_put(connection, transaction, to, bank_get(connection, transaction, to) + amount);
    bank_check(mdb_txn_commit(transaction));
}

static int64_t bank_balance(void *connection, const char *account)
{
    MDB_txn *transaction = bank_begin(connection);
    int64_t number = bank_get(connection, transaction, account);

    mdb_txn_abort(transaction);
    return number;
}

#define LMDB_BANK(option)                                                                \
    {                                                                                    \
        "lmdb-" option, option, true, bank_connect, bank_disconnect, bank_open_accounts, \
            bank_transfer, bank_balance                                                  \
    }

const struct bank lmdb_banks[] = {LMDB_BANK("nosync"), LMDB_BANK("sync"), {0}};

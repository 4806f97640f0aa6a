/* SQLite with a write-ahead log, a connection a thread. The threads take turns by a mutex, which
 * spares them the sleeps in which SQLite waits for its lock. */
#include <err.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "experiments/peers/transfer.h"

enum { BEGIN, TAKE, GIVE, COMMIT, BALANCE, STATEMENTS };

static const char *const statement_texts[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [TAKE] = "UPDATE accounts SET balance = balance - ?2 WHERE name = ?1 AND balance >= ?2",
    [GIVE] = "UPDATE accounts SET balance = balance + ?2 WHERE name = ?1",
    [COMMIT] = "COMMIT",
    [BALANCE] = "SELECT balance FROM accounts WHERE name = ?1",
};

struct sqlite_link {
    sqlite3 *database;
    sqlite3_stmt *statements[STATEMENTS];
};

static pthread_mutex_t sqlite_turn = PTHREAD_MUTEX_INITIALIZER;

static void sqlite_check(const struct sqlite_link *link, bool good)
{
    if (!good)
        errx(4, "sqlite: %s", sqlite3_errmsg(link->database));
}

static void sqlite_do(const struct sqlite_link *link, const char *text)
{
    sqlite_check(link, sqlite3_exec(link->database, text, NULL, NULL, NULL) == SQLITE_OK);
}

/* option: the value of PRAGMA synchronous. */
static void *sqlite_connect(const char *address, const char *option)
{
    struct sqlite_link *link = calloc(1, sizeof *link);
    char text[4096];

    if (!link)
        err(4, "sqlite");
    snprintf(text, sizeof text, "%s/bank.db", address);
    sqlite_check(link, sqlite3_open(text, &link->database) == SQLITE_OK);
    sqlite_check(link, sqlite3_busy_timeout(link->database, 60000) == SQLITE_OK);
    sqlite_do(link, "PRAGMA journal_mode = WAL");
    snprintf(text, sizeof text, "PRAGMA synchronous = %s", option);
    sqlite_do(link, text);
    sqlite_do(link, "CREATE TABLE IF NOT EXISTS accounts "
                    "(name TEXT PRIMARY KEY, balance INTEGER NOT NULL) WITHOUT ROWID");
    for (unsigned i = 0; i < STATEMENTS; i++)
        sqlite_check(link, sqlite3_prepare_v2(link->database, statement_texts[i], -1,
                                              &link->statements[i], NULL) == SQLITE_OK);
    return link;
}

static void sqlite_disconnect(void *connection)
{
    struct sqlite_link *link = connection;

    for (unsigned i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(link->statements[i]);
    sqlite3_close(link->database);
    free(link);
}

static void sqlite_open_accounts(void *connection)
{
    const struct sqlite_link *link = connection;
    char text[128];

    sqlite_do(link, "BEGIN IMMEDIATE");
    for (unsigned i = 0; i < ACCOUNTS; i++) {
        snprintf(text, sizeof text, "INSERT OR REPLACE INTO accounts VALUES ('%s', %d)",
                 account_name(i), OPENING_BALANCE);
        sqlite_do(link, text);
    }
    sqlite_do(link, "COMMIT");
}

/* Executes a statement that gives no row. */
static void sqlite_step(const struct sqlite_link *link, unsigned number)
{
    sqlite_check(link, sqlite3_step(link->statements[number]) == SQLITE_DONE);
    sqlite3_reset(link->statements[number]);
}

static void sqlite_move(const struct sqlite_link *link, unsigned number, const char *account,
                        int64_t amount)
{
    sqlite3_stmt *statement = link->statements[number];

    sqlite_check(link, sqlite3_bind_text(statement, 1, account, -1, SQLITE_STATIC) == SQLITE_OK &&
                           sqlite3_bind_int64(statement, 2, amount) == SQLITE_OK);
    sqlite_step(link, number);
    if (sqlite3_changes(link->database) != 1)
        errx(4, "sqlite: too little");
}

static void sqlite_transfer(void *connection, const char *from, const char *to, int64_t amount)
{
    const struct sqlite_link *link = connection;

    pthread_mutex_lock(&sqlite_turn);
    sqlite_step(link, BEGIN);
    sqlite_move(link, TAKE, from, amount);
    sqlite_move(link, GIVE, to, amount);
    sqlite_step(link, COMMIT);
    pthread_mutex_unlock(&sqlite_turn);
}

static int64_t sqlite_balance(void *connection, const char *account)
{
    const struct sqlite_link *link = connection;
    sqlite3_stmt *statement = link->statements[BALANCE];

    sqlite_check(link, sqlite3_bind_text(statement, 1, account, -1, SQLITE_STATIC) == SQLITE_OK &&
                           sqlite3_step(statement) == SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return number;
}

#define SQLITE_BANK(synchronous)                                                      \
    {                                                                                 \
        "sqlite-" synchronous, synchronous, false, sqlite_connect, sqlite_disconnect, \
            sqlite_open_accounts, sqlite_transfer, sqlite_balance                     \
    }

const struct bank sqlite_banks[] = {SQLITE_BANK("normal"), SQLITE_BANK("full"), {0}};

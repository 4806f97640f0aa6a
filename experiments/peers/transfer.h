/*
 * transfer: money moves between accounts, each time in one transaction, on one of the systems that
 * mqkv's transactions are compared with, so that all are driven by the same loop (transfer_load.c).
 * A failure ends the program, and so does a balance that would fall below 0: all are checked for
 * that, and have enough.
 */
#ifndef MQKV_EXPERIMENTS_PEERS_TRANSFER_H
#define MQKV_EXPERIMENTS_PEERS_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#define ACCOUNTS        1000u
#define OPENING_BALANCE 1000000

struct bank {
    const char *name;
    const char *option; /* what tells banks of one system apart */
    bool shared;        /* one connection serves all threads */
    /* `address`: the queue, socket or folder of the system. */
    void *(*connect)(const char *address, const char *option);
    void (*disconnect)(void *connection);
    /* Gives each account its opening balance. */
    void (*open_accounts)(void *connection);
    void (*transfer)(void *connection, const char *from, const char *to, int64_t amount);
    int64_t (*balance)(void *connection, const char *account);
};

/* Each ends with a NULL name. */
extern const struct bank mqkv_banks[], redis_banks[], sqlite_banks[], lmdb_banks[];

/* Returns the name of an account, below ACCOUNTS; it lives as long as the program. */
const char *account_name(unsigned account);

#endif

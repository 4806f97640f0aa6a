/* LMDB in the process of the load: the address is the folder of the database. Several processes may
 * have it open, so a load reads what another process wrote.
 *
 * A call is a transaction, as its users must have it who want to see the last write: one that only
 * reads renews the transaction of its thread, which is LMDB's fastest way. Writes are not
 * synced. */
#include "common/report/error.h"
#include "experiments/peers/backend.h"

#include <errno.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdlib.h>

#define DATABASE_MAX_BYTES ((size_t)64 << 30)
#define MAX_READERS        1024u

struct lmdb_connection {
    MDB_txn *reader; /* NULL, or reset */
};

/* A process may open a database once. */
static struct {
    pthread_mutex_t lock;
    MDB_env *environment;
    MDB_dbi table;
    unsigned users;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* holds: shared.lock. */
static int open_table(void)
{
    MDB_txn *transaction;
    int status = mdb_txn_begin(shared.environment, NULL, 0, &transaction);
    if (status != 0)
        return status;
    status = mdb_dbi_open(transaction, NULL, 0, &shared.table);
    if (status == 0)
        return mdb_txn_commit(transaction);
    mdb_txn_abort(transaction);
    return status;
}

/* holds: shared.lock. */
static int open_environment(const char *folder)
{
    int status = mdb_env_create(&shared.environment);
    if (status != 0)
        return status;
    status = mdb_env_set_mapsize(shared.environment, DATABASE_MAX_BYTES);
    if (status == 0)
        status = mdb_env_set_maxreaders(shared.environment, MAX_READERS);
    if (status == 0)
        status =
            mdb_env_open(shared.environment, folder, MDB_NOTLS | MDB_WRITEMAP | MDB_NOSYNC, 0600);
    if (status == 0)
        status = open_table();
    if (status != 0)
        mdb_env_close(shared.environment);
    return status;
}

void *backend_connect(const char *address, struct kv_error *error)
{
    struct lmdb_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    pthread_mutex_lock(&shared.lock);
    int status = shared.users > 0 ? 0 : open_environment(address);
    shared.users += status == 0;
    pthread_mutex_unlock(&shared.lock);
    if (status == 0)
        return connection;
    kv_error_set(error, KV_NO_SERVER, "%s: %s", address, mdb_strerror(status));
    free(connection);
    return NULL;
}

void backend_disconnect(void *handle)
{
    struct lmdb_connection *connection = handle;
    if (connection->reader)
        mdb_txn_abort(connection->reader);
    free(connection);
    pthread_mutex_lock(&shared.lock);
    if (--shared.users == 0)
        mdb_env_close(shared.environment);
    pthread_mutex_unlock(&shared.lock);
}

static MDB_val value_of(struct kv_slice slice)
{
    return (MDB_val){slice.size, (void *)(uintptr_t)slice.data};
}

/* One operation within the transaction. 0, or what LMDB says of the transaction. */
static int execute_one(MDB_txn *transaction, const struct clientk_operation *operation,
                       struct clientk_result *result)
{
    MDB_val key = value_of(operation->key), value = value_of(operation->value);
    int status;
    switch (operation->opcode) {
    case CLIENTK_GET:
    case CLIENTK_EXISTS:
        status = mdb_get(transaction, shared.table, &key, &value);
        break;
    case CLIENTK_PUT:
        status = mdb_put(transaction, shared.table, &key, &value, 0);
        break;
    case CLIENTK_DELETE:
        status = mdb_del(transaction, shared.table, &key, NULL);
        break;
    default:
        return EINVAL;
    }
    result->status = status == MDB_NOTFOUND ? KV_NOT_FOUND : status == 0 ? KV_OK : KV_IO;
    if (status == 0 && operation->opcode == CLIENTK_GET)
        result->status = backend_set_value(&result->value, value.mv_data, value.mv_size);
    return status == MDB_NOTFOUND ? 0 : status;
}

static int execute_all(MDB_txn *transaction, const struct clientk_operation *operations,
                       size_t count, struct clientk_result *results)
{
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++)
        status = execute_one(transaction, &operations[i], &results[i]);
    return status;
}

static int read_all(struct lmdb_connection *connection, const struct clientk_operation *operations,
                    size_t count, struct clientk_result *results)
{
    int status = connection->reader
                     ? mdb_txn_renew(connection->reader)
                     : mdb_txn_begin(shared.environment, NULL, MDB_RDONLY, &connection->reader);
    if (status != 0)
        return status;
    status = execute_all(connection->reader, operations, count, results);
    mdb_txn_reset(connection->reader);
    return status;
}

static int write_all(const struct clientk_operation *operations, size_t count,
                     struct clientk_result *results)
{
    MDB_txn *transaction;
    int status = mdb_txn_begin(shared.environment, NULL, 0, &transaction);
    if (status != 0)
        return status;
    status = execute_all(transaction, operations, count, results);
    if (status == 0)
        return mdb_txn_commit(transaction);
    mdb_txn_abort(transaction);
    return status;
}

static bool only_reads(const struct clientk_operation *operations, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (operations[i].opcode != CLIENTK_GET && operations[i].opcode != CLIENTK_EXISTS)
            return false;
    return true;
}

enum kv_status backend_execute(void *handle, const struct clientk_operation *operations,
                               size_t count, struct clientk_result *results)
{
    int status = only_reads(operations, count) ? read_all(handle, operations, count, results)
                                               : write_all(operations, count, results);
    return status == 0 ? KV_OK : status == EINVAL ? KV_UNSUPPORTED : KV_IO;
}

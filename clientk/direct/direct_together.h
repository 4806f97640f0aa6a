/*
 * direct_together: reads of several keys as they all are at one moment, without a message.
 *
 * Each key is looked up once and again, until a whole pass over the keys has found nothing other
 * than the pass before it. A key that was found in the same place of the same log twice was there
 * all the while: a place is never used for another record, since logs only grow, and a replaced log
 * has another generation. A key that was absent twice was so all the while if no item was moved in
 * between: each insertion and each removal moves items. So all that was found holds together at
 * every moment between the two passes; what has expired by then counts as absent. Writes of other
 * keys disturb this only where a key is absent, and only if keys come or go in its data file.
 *
 * Threads: any.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_TOGETHER_H
#define MQKV_CLIENTK_DIRECT_DIRECT_TOGETHER_H

#include <stdbool.h>
#include <stddef.h>

#include "clientk/direct/direct.h"
#include "mqkv/clientk.h"

/* Executes `count` operations, 1 .. CLIENTK_MAX_TRANSACTION_STEPS, each of which must be a GET or
 * EXISTS, at one moment, and fills `results`, as clientk_transact does: with KV_OK or KV_NOT_FOUND.
 * False: the reads have to go by message, all of them, and `results` have nothing but memory. */
bool direct_read_together(struct direct *direct, struct direct_reader *reader,
                          const struct clientk_operation *operations, size_t count,
                          struct clientk_result *results);

#endif

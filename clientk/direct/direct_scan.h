/*
 * direct_scan: one page of a scan, without a message.
 *
 * A page has the order of the daemon's own scans, and the same cursors
 * (kvstore/shared/scan_cursor.h), so that a scan can continue either way. The slots of one segment
 * of an index are collected at one moment; then their records are read. So an entry that exists all
 * the while is visited exactly once, with a value that it had while the page was made.
 *
 * A page ends before a record that is damaged; the daemon says so when it is asked for the next
 * page.
 *
 * Threads: any.
 */
#ifndef MQKV_CLIENTK_DIRECT_DIRECT_SCAN_H
#define MQKV_CLIENTK_DIRECT_DIRECT_SCAN_H

#include <stdbool.h>

#include "clientk/direct/direct.h"
#include "mqkv/clientk.h"

/* Executes the SCAN of `prefix` with *options and fills *result as the daemon would: its status is
 * KV_OK or KV_NO_MEMORY. False: the page has to go by message, as every atomic one. */
bool direct_scan_page(struct direct *direct, struct direct_reader *reader, struct kv_slice prefix,
                      const struct clientk_scan_options *options, struct clientk_result *result);

#endif

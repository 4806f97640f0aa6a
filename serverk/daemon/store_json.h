/*
 * store_json: what statistics tell of the store, as JSON: the sections files, cache and bound of
 * stats_json.
 *
 * Threads: any. Each writes the members of its section.
 */
#ifndef MQKV_SERVERK_DAEMON_STORE_JSON_H
#define MQKV_SERVERK_DAEMON_STORE_JSON_H

#include "serverk/daemon/json_writer.h"
#include "serverk/daemon/stats_source.h"

void put_files(const struct stats_source *source, struct json *json);
void put_cache(const struct stats_source *source, struct json *json);
void put_bound(const struct stats_source *source, struct json *json);

#endif

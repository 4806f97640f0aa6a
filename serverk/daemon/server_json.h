/*
 * server_json: what statistics tell of the daemon itself, as JSON: the sections server, engine and
 * mirror of stats_json.
 *
 * Threads: any. Each writes the members of its section.
 */
#ifndef MQKV_SERVERK_DAEMON_SERVER_JSON_H
#define MQKV_SERVERK_DAEMON_SERVER_JSON_H

#include "serverk/daemon/json_writer.h"
#include "serverk/daemon/stats_source.h"

void put_server(const struct stats_source *source, struct json *json);
void put_engine(const struct stats_source *source, struct json *json);
void put_mirror(const struct stats_source *source, struct json *json);

#endif

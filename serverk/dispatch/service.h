/*
 * service: what all workers of the daemon share. Filled in by server.c before the first worker
 * starts and constant from then on; each module pointed to says what its threads may do.
 */
#ifndef MQKV_SERVERK_DISPATCH_SERVICE_H
#define MQKV_SERVERK_DISPATCH_SERVICE_H

#include <stdint.h>

#include "engine/store_engine.h"
#include "serverk/config/live_settings.h"
#include "serverk/config/options.h"
#include "serverk/execute/commit.h"
#include "serverk/execute/execution_context.h"
#include "serverk/execute/request_notes.h"
#include "serverk/execute/statistics.h"
#include "serverk/execute/submission_pool.h"
#include "serverk/execute/watchers.h"
#include "serverk/lanes/lanes.h"
#include "serverk/receive/aside.h"
#include "serverk/receive/parking.h"
#include "serverk/receive/message_order.h"
#include "serverk/receive/shares.h"
#include "serverk/session/farewell.h"
#include "serverk/session/fragments.h"
#include "serverk/session/hello.h"
#include "serverk/session/session_table.h"

struct mirror;
struct pool_feed;

struct service {
    const struct server_options *options; /* as it was started */
    const struct live_settings *live;     /* as they are now */
    struct store_engine *engine;
    struct kvstore *store;           /* the engine's; NULL: its operations are submitted */
    struct submissions *submissions; /* NULL unless they are */
    struct request_notes *notes;
    struct lanes *lanes;
    struct access *access; /* of users */
    struct session_table *sessions;
    struct fragment_budget *budget;
    struct farewells *farewells;
    struct commit *commit;     /* NULL unless the engine is called */
    struct watchers *watchers; /* likewise */
    struct mirror *mirror;     /* NULL: there is none (serverk/daemon/mirroring.h) */
    struct write_gate mirror_gate;
    const struct write_gate *gate;        /* NULL: writes have nothing to pass */
    struct parking *parking;              /* NULL unless all workers receive, with --lanes auto */
    struct aside *aside;                  /* likewise; NULL also where messages have an order */
    const struct pool_feed *feed;         /* of the dispatch model (pool.h) */
    struct shares *shares;                /* NULL: there are no other users */
    struct message_order *order;          /* NULL: messages wait in the queues */
    struct worker_statistics *statistics; /* dispatch_model_writers blocks */
    struct hello_terms terms;             /* of new sessions */
    stats_writer write_stats;             /* for STATS */
    const void *stats_context;
    admin_runner run_admin; /* for ADMIN */
    void *admin_context;
    bool (*admin_waits)(struct kv_slice command); /* whether it may have to wait for the store */
};

#endif

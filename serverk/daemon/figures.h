/*
 * figures: the numbers that both texts of the statistics tell, the metrics (metrics.h) and the JSON
 * (stats_json.h): each is said once, with its names in the two texts, its help, and where it comes
 * from. A figure without a name in one of the texts (NULL) is left out there.
 *
 * Threads: any.
 */
#ifndef MQKV_SERVERK_DAEMON_FIGURES_H
#define MQKV_SERVERK_DAEMON_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "serverk/daemon/json_writer.h"
#include "serverk/daemon/stats_source.h"

/* The text that figures go to: one of the two members; the other is NULL. */
struct figures {
    struct json *json; /* in the object to which members are added */
    FILE *metrics;
};

/* What stands once in each of several structs of a kind: a uint64_t at `offset`. */
struct figure {
    const char *json, *metric, *help;
    size_t offset;
};

/* Tables of these, which end with a row of zeros. */
extern const struct figure file_figures[];  /* struct kvstore_file_statistics */
extern const struct figure user_figures[];  /* struct access_user */
extern const struct figure quota_figures[]; /* struct quota_facts */

struct quota_facts {
    uint64_t bytes, max_bytes, keys, max_keys, refusals;
};
void quota_facts_read(const struct service *service, unsigned quota, uint64_t max_bytes,
                      uint64_t max_keys, struct quota_facts *facts);

uint64_t figure_value(const struct figure *figure, const void *of);

/* Adds the members that the table gives a JSON object, read from the struct `of`. */
void figures_put_members(struct json *json, const struct figure *table, const void *of);

/* Sums over all data files. */
struct file_totals {
    struct kvstore_file_statistics sums; /* of what file_figures tell */
    uint64_t unsynced_bytes, oldest_unsynced_ms;
    uint64_t read_only, full, compaction_failing, stale, nameless;
};

/* Adds a file to the totals, which begin as {0}. */
void file_totals_add(struct file_totals *totals, const struct kvstore_file_statistics *file);

/* Each of these puts the figures of one kind to the text `to`. */
void figures_put_workers(const struct service *service, struct figures to);
void figures_put_waiting_replies(const struct service *service, struct figures to);
void figures_put_operations(const struct worker_statistics *sum, struct figures to);
void figures_put_sessions(const struct session_counts *counts, struct figures to);
void figures_put_file_totals(const struct file_totals *totals, struct figures to);
void figures_put_disk(const struct service *service, struct figures to);
void figures_put_cache(const struct service *service, struct figures to);
void figures_put_bound(const struct service *service, struct figures to);
void figures_put_order(const struct service *service, struct figures to);

#endif

/*
 * pipeline: what the handle knows of its pipelines. A pipeline has a session of its own, and lives
 * until it is closed, also if the handle is closed before.
 */
#ifndef MQKV_CLIENTK_PIPELINE_H
#define MQKV_CLIENTK_PIPELINE_H

#include "mqkv/clientk.h"

/* Adds what the pipelines did, open ones and closed ones. */
void pipelines_add_info(struct clientk *client, struct clientk_info *info);

/* The handle is about to be freed: its pipelines forget it. */
void pipelines_orphan(struct clientk *client);

#endif

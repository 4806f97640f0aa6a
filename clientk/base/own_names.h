/*
 * own_names: names for what this process creates: reply queues and segments.
 */
#ifndef MQKV_CLIENTK_BASE_OWN_NAMES_H
#define MQKV_CLIENTK_BASE_OWN_NAMES_H

#include "wire/queue_name.h"

/* A name that this process has not used yet, for role WIRE_REPLY_QUEUE or WIRE_REPLY_SEGMENT. */
void name_of_own(char out[WIRE_QUEUE_NAME_BYTES], const char *base, enum wire_queue_role role);

#endif

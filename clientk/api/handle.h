/*
 * handle: the inside of a struct clientk: its settings, combiners, threads and pipelines.
 */
#ifndef MQKV_CLIENTK_API_HANDLE_H
#define MQKV_CLIENTK_API_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/base/client_settings.h"
#include "clientk/base/page_room.h"
#include "clientk/combining/combiner.h"
#include "clientk/direct/direct.h"
#include "clientk/pipeline/pipeline.h"

struct attachment;

struct clientk {
    struct client_settings settings; /* constant, once it is connected */
    _Atomic unsigned priority;       /* of connections that are yet to be made */
    unsigned fork_generation;   /* constant: of the process that opened the handle (handles.h) */
    struct combiner *combiners; /* combiner_count of them; each synchronises itself */
    unsigned combiner_count;

    /* Threads and combiners (threads.c). All guarded by handles_lock, except the epoch, which
     * threads read to see whether their combiner may have changed. */
    _Atomic uint32_t layout_epoch;
    bool shared; /* more threads than combine_above: all share combine_groups combiners */
    unsigned thread_count;
    unsigned next_number;
    struct attachment **slot_owners; /* the thread that has combiner i for itself; NULL: none */
    struct attachment *attachments;

    struct pipeline_list pipelines;
    struct direct direct;       /* synchronises itself */
    struct page_room page_room; /* of scans and ranges */
};

#endif

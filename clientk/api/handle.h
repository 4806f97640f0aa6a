/*
 * handle: the inside of a struct clientk: its settings, its combiners, its threads, its pipelines.
 */
#ifndef MQKV_CLIENTK_API_HANDLE_H
#define MQKV_CLIENTK_API_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clientk/base/client_settings.h"
#include "clientk/combining/combiner.h"
#include "clientk/direct/direct.h"
#include "clientk/pipeline/pipeline.h"

struct attachment;

struct clientk {
    struct client_settings settings; /* constant, once it is connected */
    _Atomic unsigned priority;       /* of connections that are yet to be made */
    unsigned fork_generation;        /* constant: of the process that opened it (base/handles.h) */
    struct combiner *combiners;      /* combiner_count of them; each synchronises itself */
    unsigned combiner_count;

    /* Threads and combiners (threads.c); all guarded by handles_lock but for the epoch, which
     * threads read to see whether their combiner may have changed. */
    _Atomic uint32_t layout_epoch;
    bool shared; /* more threads than combine_above: all share the groups */
    unsigned thread_count;
    unsigned next_number;
    struct attachment **slot_owners; /* of combiner i as a thread's own; NULL: nobody */
    struct attachment *attachments;

    struct pipeline_list pipelines;
    struct direct direct; /* synchronises itself */
};

#endif

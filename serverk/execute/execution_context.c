#include "serverk/execute/execution_context.h"

#include <sys/mman.h>

#include "serverk/execute/allowance.h"

static uint8_t *reserve_buffer(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

bool execution_context_init(struct execution_context *context, struct kvstore *store,
                            struct fragment_budget *budget)
{
    *context = (struct execution_context){.store = store,
                                          .budget = budget,
                                          .message_ms = ALLOWANCE_MS,
                                          .buffer_bytes = budget->message_max_bytes};
    context->reply = reserve_buffer(context->buffer_bytes);
    context->incoming = reserve_buffer(context->buffer_bytes);
    context->outgoing = reserve_buffer(context->buffer_bytes);
    context->found = reserve_buffer(context->buffer_bytes);
    if (context->reply && context->incoming && context->outgoing && context->found &&
        commit_waits_init(&context->waits, store ? kvstore_datafiles(store) : 0))
        return true;
    execution_context_free(context);
    return false;
}

void execution_context_free(struct execution_context *context)
{
    uint8_t *buffers[] = {context->reply, context->incoming, context->outgoing, context->found};
    for (unsigned i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        if (buffers[i])
            munmap(buffers[i], context->buffer_bytes);
    commit_waits_free(&context->waits);
}

#include "bridges/kresp/session/redis_session.h"

#include <stdlib.h>

#include "common/time/clock.h"

void redis_session_init(struct redis_session *session, struct redis_service *service,
                        struct redis_user *user)
{
    const struct byte_buffer buffer = {.owner = &user->buffers};
    redis_store_refresh(service->store);
    *session = (struct redis_session){
        .service = service,
        .user = user,
        .input = buffer,
        .request.spans = buffer,
        .reply.bytes = buffer,
        .transaction = {.commands = buffer, .spans = buffer, .bytes = buffer},
        .reply.protocol = 2,
        .id = atomic_fetch_add(&service->next_client_id, 1) + 1,
        .since_ms = clock_realtime_ms(),
        .authenticated = service->password == NULL,
    };
    redis_subscriber_init(&session->subscriber, &service->channels, &user->channels,
                          &user->buffers);
    key_tracker_init(&session->tracker, &service->tracking, &session->subscriber.inbox,
                     &user->tracking, &user->buffers);
}

void redis_session_free(struct redis_session *session)
{
    redis_job_free(session->unfinished);
    redis_transaction_free(&session->transaction);
    key_tracker_stop(&session->tracker);
    redis_subscriber_free(&session->subscriber);
    resp_request_free(&session->request);
    byte_buffer_free(&session->input);
    byte_buffer_free(&session->reply.bytes);
}

void redis_session_note_writes(struct redis_session *session,
                               const struct clientk_operation *operations,
                               const struct clientk_result *results, size_t count)
{
    if (!session->tracker.own_writes)
        return;
    for (size_t i = 0; i < count; i++)
        if (operations[i].opcode != CLIENTK_GET && operations[i].opcode != CLIENTK_EXISTS &&
            results[i].status == KV_OK)
            key_tracker_note_write(&session->tracker, operations[i].key, results[i].value.version);
}

void redis_session_release(struct redis_session *session)
{
    resp_request_release(&session->request, &session->input);
}

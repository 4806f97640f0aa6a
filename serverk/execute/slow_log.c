#include "serverk/execute/slow_log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/assert/assert.h"
#include "common/report/log.h"
#include "common/report/log_pace.h"
#include "common/text/escape.h"
#include "common/text/parse.h"
#include "serverk/execute/statistics.h"

struct slow_log {
    pthread_mutex_t lock;
    uint64_t noted; /* the last is entries[(noted - 1) % SLOW_LOG_ENTRIES] */
    unsigned count;
    struct slow_request entries[SLOW_LOG_ENTRIES];
};

struct slow_log *slow_log_create(void)
{
    struct slow_log *slow_log = calloc(1, sizeof *slow_log);
    if (slow_log)
        pthread_mutex_init(&slow_log->lock, NULL);
    return slow_log;
}

void slow_log_free(struct slow_log *slow_log)
{
    if (slow_log)
        pthread_mutex_destroy(&slow_log->lock);
    free(slow_log);
}

static void log_request(const struct slow_request *request)
{
    static struct log_pace pace = LOG_PACE(1000);
    char unsaid[LOG_PACE_TEXT_BYTES], work[32], locks[32], operations[48] = "", key[600] = "";
    if (!log_pace_allows(&pace, unsaid))
        return;
    FILE *text = fmemopen(key, sizeof key, "w");
    if (text) {
        escape_print(text, slow_request_key(request));
        fclose(text);
    }
    if (request->operations > 1)
        snprintf(operations, sizeof operations, " and %u more operations", request->operations - 1);
    log_warn("slow: %s \"%s\"%s%s took %s, %s of it waiting for locks; session %u, process %ld, "
             "uid %lu%s",
             statistics_operation_name(request->opcode), key,
             request->key_bytes > SLOW_LOG_KEY_BYTES ? "..." : "", operations,
             format_duration_ns(request->work_ns, work),
             format_duration_ns(request->lock_wait_ns, locks), request->session, (long)request->pid,
             (unsigned long)request->uid, unsaid);
}

void slow_log_note(struct slow_log *slow_log, const struct slow_request *request)
{
    pthread_mutex_lock(&slow_log->lock);
    slow_log->entries[slow_log->noted++ % SLOW_LOG_ENTRIES] = *request;
    if (slow_log->count < SLOW_LOG_ENTRIES)
        slow_log->count++;
    pthread_mutex_unlock(&slow_log->lock);
    log_request(request);
}

unsigned slow_log_take(struct slow_log *slow_log, struct slow_request *requests, uint64_t *noted)
{
    pthread_mutex_lock(&slow_log->lock);
    unsigned count = slow_log->count;
    KV_ASSERT(count <= SLOW_LOG_ENTRIES && count <= slow_log->noted);
    *noted = slow_log->noted;
    for (unsigned i = 0; i < count; i++)
        requests[i] = slow_log->entries[(slow_log->noted - 1 - i) % SLOW_LOG_ENTRIES];
    pthread_mutex_unlock(&slow_log->lock);
    return count;
}

void slow_log_clear(struct slow_log *slow_log)
{
    pthread_mutex_lock(&slow_log->lock);
    slow_log->count = 0;
    pthread_mutex_unlock(&slow_log->lock);
}

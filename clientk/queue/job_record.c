#include "clientk/queue/job_record.h"

#include <stdlib.h>

#include "common/memory/cursor.h"
#include "mqkv/clientk_queue.h"

#define RECORD_MAGIC 0x314Au /* "J1" */

bool job_record_read(struct kv_slice value, struct job_record *record)
{
    struct read_cursor cursor = read_cursor(value.data, value.size);
    bool known = read_u16(&cursor) == RECORD_MAGIC;
    unsigned state_and_lane = read_u16(&cursor), state = state_and_lane & 0xffu;
    *record = (struct job_record){.state = (enum job_record_state)state};
    record->lane = state_and_lane >> 8;
    record->attempts = read_u32(&cursor);
    record->max_attempts = read_u32(&cursor);
    record->backoff_ms = read_u32(&cursor);
    record->until_ms = read_u64(&cursor);
    record->token = read_u64(&cursor);
    record->id = read_u64(&cursor);
    record->put_ms = read_u64(&cursor);
    record->body_bytes = read_u64(&cursor);
    uint32_t reason_bytes = read_u32(&cursor);
    known &= read_u32(&cursor) == 0;
    record->reason = read_slice(&cursor, reason_bytes);
    if (cursor.failed)
        return false;
    record->payload = read_slice(&cursor, read_cursor_left(&cursor));
    return known && state <= JOB_REFERENCE && record->lane <= CLIENTK_MAX_JOB_PRIORITY &&
           (record->body_bytes == 0 || record->payload.size == 0);
}

void *job_record_write(const struct job_record *record, size_t *size)
{
    *size = JOB_RECORD_HEAD_BYTES + record->reason.size + record->payload.size;
    void *bytes = malloc(*size);
    if (!bytes)
        return NULL;
    struct write_cursor cursor = write_cursor(bytes, *size);
    write_u16(&cursor, RECORD_MAGIC);
    write_u16(&cursor, (uint16_t)(record->state | record->lane << 8));
    write_u32(&cursor, record->attempts);
    write_u32(&cursor, record->max_attempts);
    write_u32(&cursor, record->backoff_ms);
    write_u64(&cursor, record->until_ms);
    write_u64(&cursor, record->token);
    write_u64(&cursor, record->id);
    write_u64(&cursor, record->put_ms);
    write_u64(&cursor, record->body_bytes);
    write_u32(&cursor, (uint32_t)record->reason.size);
    write_u32(&cursor, 0);
    write_bytes(&cursor, record->reason.data, record->reason.size);
    write_bytes(&cursor, record->payload.data, record->payload.size);
    return bytes;
}

#include "kvstore/table/position.h"

#include <errno.h>

#include "common/numbers/random.h"
#include "common/report/error.h"
#include "kvstore/format/sizes.h"
#include "kvstore/log/lognotes.h"
#include "kvstore/table/recovery.h"

int position_open_stream(struct logfile *log)
{
    return log->stream != 0 ? 0 : lognotes_put_stream(log, random_secret() | 1);
}

int position_void_stream(struct logfile *log)
{
    static const struct file_replaced nothing;
    if (log->stream == 0)
        return 0;
    if (lognotes_put_replaced(log, &nothing) != 0)
        return -1;
    return lognotes_put_stream(log, 0);
}

bool position_is_of(const struct kvstore_position *position, const struct logfile *log)
{
    return log->stream != 0 && log->stream == position->log;
}

struct kvstore_position position_of_end(const struct logfile *log, uint64_t offset)
{
    return (struct kvstore_position){.log = log->stream, .version = POSITION_END, .place = offset};
}

struct kvstore_position position_of_tail(const struct generation *generation, bool durable)
{
    const struct logfile *log = &generation->log;
    struct kvstore_position position = position_of_end(log, log->tail);
    struct record record;
    uint64_t size_bytes;
    logfile_begin(log, READ_BUFFER_VISIT);
    if (generation->last != 0 && logfile_read(log, READ_BUFFER_VISIT, generation->last, &record,
                                              &size_bytes) == RECORD_VALID) {
        position.place = generation->last;
        position.version = record.version;
    } else if (!durable || generation->last != 0) {
        position.version |= generation->words->max_version;
    }
    return position;
}

/* The record there, or RECORD_END at the end of the log. Who makes up a position may have made a
 * header there too: no more is read than the largest record has. */
static enum record_verdict read_change_at(const struct logfile *log, uint64_t offset, uint64_t end,
                                          struct record *record, uint64_t *size_bytes)
{
    uint64_t most =
        record_padded(RECORD_MAX_HEADER_BYTES + KVSTORE_MAX_KEY_BYTES + KVSTORE_MAX_VALUE_BYTES);
    if (offset == end)
        return RECORD_END;
    logfile_begin(log, READ_BUFFER_VISIT);
    enum record_verdict verdict = logfile_read_before(
        log, READ_BUFFER_VISIT, offset, at_most(end, offset + most), record, size_bytes);
    return verdict == RECORD_SUPERSEDED ? RECORD_VALID : verdict; /* a change it is all the same */
}

/* Is this the version that follows, with no restart in between that read the log and so may have
 * lost some? */
static bool follows(uint64_t version, uint64_t before)
{
    return version > before && version - before < RECOVERY_VERSION_LEAP;
}

enum kv_status position_find(const struct kvstore_position *position, const struct logfile *log,
                             uint64_t end, uint64_t max_version, uint64_t *offset)
{
    struct record record;
    uint64_t size_bytes = 0;
    uint64_t place = position->place;
    uint64_t version = position->version & ~POSITION_END;
    if (place < FILE_HEADER_BYTES || place > end || place % RECORD_ALIGNMENT != 0)
        return KV_MISSED;
    enum record_verdict verdict = read_change_at(log, place, end, &record, &size_bytes);
    if (verdict == RECORD_UNREADABLE)
        return kv_status_from_errno(errno);
    if (verdict != RECORD_VALID && place < end && logfile_is_broken(log))
        return KV_IO;
    bool found;
    if ((position->version & POSITION_END) == 0) {
        *offset = place + size_bytes;
        found = verdict == RECORD_VALID && record.version == version;
    } else {
        *offset = place;
        found = verdict == RECORD_END
                    ? version == 0 || version == max_version
                    : verdict == RECORD_VALID && (version == 0 || follows(record.version, version));
    }
    return found ? KV_OK : KV_MISSED;
}

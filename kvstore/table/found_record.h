/*
 * found_record: the record that a lookup found, and whether it can be relied on. A lookup compares
 * the key only; before anything else of the record is used, all of it is loaded and its checksum
 * taken, once or each time, as the options of the store say.
 *
 * Holds: the file's lock, shared or not; with found_record_verify_in a place among the readers
 * without a lock will do (variants.h).
 */
#ifndef MQKV_KVSTORE_TABLE_FOUND_RECORD_H
#define MQKV_KVSTORE_TABLE_FOUND_RECORD_H

#include "kvstore/table/datafile.h"

/* Takes the checksum of a record in the mapping, whose header was parsed. Notes a large record as
 * verified. */
static inline enum record_verdict found_record_check_mapped(const struct logfile *log,
                                                            const struct lookup *lookup)
{
    if (!record_is_sound(log->map + lookup->offset, &lookup->record, log->identity.salt,
                         lookup->offset))
        return RECORD_INVALID;
    verified_bitmap_note(&log->verified, lookup->offset, lookup->size_bytes);
    return RECORD_VALID;
}

/* Loads the record of `lookup` into read_buffer, and takes its checksum unless it is trusted. */
enum record_verdict found_record_load(const struct logfile *log, enum read_buffer read_buffer,
                                      struct lookup *lookup, bool trusted);

/* Says in the log what is wrong with the record of `lookup`, of which `verdict` was given. Returns
 * KV_CORRUPT, KV_IO or KV_NO_MEMORY. */
enum kv_status found_record_tell(const struct store_context *context, struct datafile *file,
                                 const struct lookup *lookup, enum record_verdict verdict);

/* Whether a lookup of `key` that found nothing can be relied on: KV_NOT_FOUND if so, else
 * KV_CORRUPT, KV_IO. */
enum kv_status found_record_explain_absence(const struct store_context *context,
                                            struct datafile *file, const struct lookup *lookup,
                                            struct kv_slice key);

/* Loads and verifies the whole record of `lookup`, which found one: KV_OK, KV_CORRUPT or KV_IO.
 * lookup->record stays the same, except that its bytes may lie in the read buffer if they are not
 * in the mapping. Inline, since every read calls it. */
__attribute__((always_inline)) static inline enum kv_status
found_record_verify_in(const struct store_context *context, struct datafile *file,
                       const struct generation *generation, enum read_buffer read_buffer,
                       struct lookup *lookup)
{
    const struct logfile *log = &generation->log;
    /* Only records in a mapping are noted: what a call reads may come from the disk each time. */
    bool trusted = (context->options.no_read_verify ||
                    (!context->options.verify_every_read &&
                     verified_bitmap_has(&log->verified, lookup->offset, lookup->size_bytes))) &&
                   !logfile_is_broken(log);
    enum record_verdict verdict;
    if (log->map)
        verdict = trusted ? RECORD_VALID : found_record_check_mapped(log, lookup);
    else
        verdict = found_record_load(log, read_buffer, lookup, trusted);
    return verdict == RECORD_VALID ? KV_OK : found_record_tell(context, file, lookup, verdict);
}

/* The same in the file's current generation. */
enum kv_status found_record_verify(const struct store_context *context, struct datafile *file,
                                   enum read_buffer read_buffer, struct lookup *lookup);

#endif

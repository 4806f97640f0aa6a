#include "kvstore/table/found_record.h"

#include <errno.h>

enum record_verdict found_record_load(const struct logfile *log, enum read_buffer read_buffer,
                                      struct lookup *lookup, bool trusted)
{
    return trusted ? logfile_load(log, read_buffer, lookup->offset, &lookup->record,
                                  &lookup->size_bytes)
                   : logfile_read(log, read_buffer, lookup->offset, &lookup->record,
                                  &lookup->size_bytes);
}

enum kv_status found_record_tell(const struct store_context *context, struct datafile *file,
                                 const struct lookup *lookup, enum record_verdict verdict)
{
    return verdict == RECORD_UNREADABLE
               ? datafile_tell_unreadable(context, file, lookup->offset, errno)
               : datafile_tell_damage(context, file, lookup->offset, lookup->record.key);
}

enum kv_status found_record_explain_absence(const struct store_context *context,
                                            struct datafile *file, const struct lookup *lookup,
                                            struct kv_slice key)
{
    if (lookup->error != 0)
        return datafile_tell_unreadable(context, file, lookup->offset, lookup->error);
    return lookup->damaged ? datafile_tell_damage(context, file, lookup->offset, key)
                           : KV_NOT_FOUND;
}

enum kv_status found_record_verify(const struct store_context *context, struct datafile *file,
                                   enum read_buffer read_buffer, struct lookup *lookup)
{
    return found_record_verify_in(context, file, file->current, read_buffer, lookup);
}

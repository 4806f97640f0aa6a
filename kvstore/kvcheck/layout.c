#include "kvstore/kvcheck/layout.h"
#include "kvstore/kvcheck/source_open.h"

#include <stddef.h>

#include "common/report/error.h"
#include "mqkv/kvstore.h"

static bool may_have(uint32_t datafiles)
{
    return datafiles >= 1 && datafiles <= KVSTORE_MAX_DATAFILES;
}

enum kv_status layout_find(struct layout *layout, int dir_fd, const char *dir,
                           struct kv_error *error)
{
    *layout = (struct layout){0};
    for (uint32_t number = 0; number < KVSTORE_MAX_DATAFILES && !layout->sound; number++) {
        struct source source;
        enum kv_status status = source_open(&source, dir_fd, number, error);
        if (status == KV_NOT_FOUND)
            continue;
        if (status != KV_OK)
            return status;
        const struct file_identity *identity = &source.identity;
        layout->datafiles = number + 1;
        layout->sound = source.header != SOURCE_HEADER_LOST && may_have(identity->datafiles) &&
                        number < identity->datafiles;
        if (layout->sound) {
            layout->datafiles = identity->datafiles;
            layout->seed = identity->store_seed;
        }
        source_close(&source);
    }
    if (layout->datafiles == 0)
        return kv_error_set(error, KV_NOT_FOUND, "%s: no store: there is no data file (data.0000)",
                            dir);
    return KV_OK;
}

bool layout_is_foreign(const struct layout *layout, const struct source *source)
{
    return layout->sound && source->header == SOURCE_HEADER_SOUND &&
           (source->identity.datafiles != layout->datafiles ||
            source->identity.store_seed != layout->seed);
}

const char *layout_complaint(const struct layout *layout, const struct source *source,
                             uint32_t number)
{
    if (source->size_bytes < FILE_HEADER_BYTES)
        return "the file is shorter than its header";
    if (source->header == SOURCE_HEADER_LOST)
        return "the header is damaged, and no record can be verified without it";
    if (source->header == SOURCE_HEADER_REPAIRED)
        return "the header is damaged";
    if (layout_is_foreign(layout, source))
        return "the header is that of a file of another store";
    if (source->identity.number != number)
        return "the header is that of another file of the store; was the file renamed?";
    return NULL;
}

#include "kvstore/format/file_name.h"

#include <stdio.h>

struct file_name file_name(uint32_t number, enum file_role role)
{
    static const char *const endings[FILE_ROLE_COUNT] = {
        [FILE_LOG] = "",
        [FILE_LOG_NEW] = ".new",
        [FILE_CHECKPOINT] = ".index",
        [FILE_CHECKPOINT_NEW] = ".index.tmp",
    };
    struct file_name name;
    snprintf(name.text, sizeof name.text, "data.%04u%s", (unsigned)(number % 10000u),
             endings[role]);
    return name;
}

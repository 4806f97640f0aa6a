#include "kvstore/format/file_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

struct file_name file_name_past(uint32_t number, uint64_t salt)
{
    struct file_name name;
    snprintf(name.text, sizeof name.text, "data.%04u.past-%016" PRIx64, (unsigned)(number % 10000u),
             salt);
    return name;
}

bool file_name_is_past(const char *name, uint32_t *number, uint64_t *salt)
{
    return sscanf(name, "data.%4" SCNu32 ".past-%16" SCNx64, number, salt) == 2 &&
           strcmp(file_name_past(*number, *salt).text, name) == 0;
}

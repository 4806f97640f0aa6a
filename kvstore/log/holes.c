#include "kvstore/log/holes.h"

#include <errno.h>
#include <unistd.h>

#include "kvstore/format/sizes.h"

bool holes_next_data(int fd, uint64_t offset, uint64_t end, struct stretch_of_data *data)
{
    if (offset >= end)
        return false;
    *data = (struct stretch_of_data){offset, end};
    off_t from = lseek(fd, (off_t)offset, SEEK_DATA);
    if (from < 0)
        return errno != ENXIO;
    if ((uint64_t)from >= end)
        return false;
    data->from = (uint64_t)from;
    off_t to = lseek(fd, from, SEEK_HOLE);
    if (to > from)
        data->to = at_most((uint64_t)to, end);
    return true;
}

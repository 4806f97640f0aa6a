#include "tests/support/no_sync.h"

#include "kvstore/log/fileio.h"

static struct fileio no_sync_table;

static int sync_nothing(int fd)
{
    (void)fd;
    return 0;
}

void no_sync_install(void)
{
    no_sync_table = fileio_system;
    no_sync_table.sync_data = sync_nothing;
    no_sync_table.sync_dir = sync_nothing;
    fileio = &no_sync_table;
}

void no_sync_clear(void)
{
    fileio = &fileio_system;
}

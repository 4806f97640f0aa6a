#include "tests/support/other_boot.h"

#include <stdint.h>

#include "kvstore/fileio.h"

static struct fileio other_boot_table;
static const struct fileio *before;

static void other_boot_id(uint8_t id[16])
{
    before->boot_id(id);
    id[0] ^= 1;
    id[15] |= 1; /* also where the system tells none */
}

void other_boot_install(void)
{
    before = fileio;
    other_boot_table = *fileio;
    other_boot_table.boot_id = other_boot_id;
    fileio = &other_boot_table;
}

void other_boot_clear(void)
{
    fileio = before;
}

#include "tests/support/other_boot.h"

#include <stdint.h>
#include <string.h>

#include "kvstore/log/fileio.h"

static struct fileio other_boot_table;
static const struct fileio *before;

static void other_boot_id(uint8_t id[16])
{
    before->boot_id(id);
    id[0] ^= 1;
    id[15] |= 1; /* also where the system tells none */
}

static void untold_boot_id(uint8_t id[16])
{
    memset(id, 0, 16);
}

static void install(void (*boot_id)(uint8_t id[16]))
{
    before = fileio;
    other_boot_table = *fileio;
    other_boot_table.boot_id = boot_id;
    fileio = &other_boot_table;
}

void other_boot_install(void)
{
    install(other_boot_id);
}

void untold_boot_install(void)
{
    install(untold_boot_id);
}

void other_boot_clear(void)
{
    fileio = before;
}

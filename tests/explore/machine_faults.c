#include "tests/explore/machine_faults.h"

#include <errno.h>

struct fault_state faults;

void machine_faults_begin(uint64_t seed)
{
    faults = (struct fault_state){.random = seed};
}

int machine_fail(int error_number)
{
    errno = error_number;
    return -1;
}

int machine_fail_io(void)
{
    faults.has_failed = true;
    return machine_fail(EIO);
}

bool machine_faults_kill(void)
{
    return faults.die_in > 0 && --faults.die_in == 0;
}

void machine_set_faults(const struct machine_faults *rates)
{
    faults.rates = *rates;
}

bool machine_has_failed(void)
{
    return faults.has_failed;
}

void machine_die_at(uint32_t count)
{
    faults.die_in = count;
}

#include "clientk/company.h"

/* The wait is at most this share of the last round, so that in vain it costs no more ... */
#define PATIENCE_SHARE 8u

/* ... not worth two reads of the clock and a yield below this ... */
#define PATIENCE_MIN_NS 1000u

/* ... and over before this: time for 64 woken threads to run on two CPUs. After that who was to come
 * has other things to do. */
#define PATIENCE_MAX_NS 250000u

bool company_matters(const struct company *company, unsigned requests)
{
    return requests > 1 || company->expected > 1;
}

void company_note(struct company *company, unsigned requests, uint64_t round_ns)
{
    company->expected = requests;
    company->round_ns = round_ns;
}

uint64_t company_patience_ns(const struct company *company, unsigned requests)
{
    uint64_t patience_ns = company->round_ns / PATIENCE_SHARE;
    if (requests >= company->expected || patience_ns < PATIENCE_MIN_NS)
        return 0;
    return patience_ns < PATIENCE_MAX_NS ? patience_ns : PATIENCE_MAX_NS;
}

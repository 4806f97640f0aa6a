#include "common/numbers/cpu_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Reads a number at *text and moves *text behind it. */
static bool take_cpu(const char **text, unsigned *cpu)
{
    if (**text < '0' || **text > '9')
        return false;
    char *end;
    unsigned long number = strtoul(*text, &end, 10);
    *text = end;
    *cpu = (unsigned)number;
    return number < CPU_SETSIZE;
}

/* "3", "0-3". */
static bool take_range(const char **text, cpu_set_t *cpus)
{
    unsigned first, last;
    if (!take_cpu(text, &first))
        return false;
    last = first;
    if (**text == '-') {
        ++*text;
        if (!take_cpu(text, &last) || last < first)
            return false;
    }
    for (unsigned cpu = first; cpu <= last; cpu++)
        CPU_SET(cpu, cpus);
    return true;
}

bool cpu_list_parse(const char *text, struct cpu_list *list)
{
    struct cpu_list taken = {.given = true};
    CPU_ZERO(&taken.cpus);
    if (strcmp(text, "all") == 0) {
        *list = (struct cpu_list){.given = false};
        return true;
    }
    if (!take_range(&text, &taken.cpus))
        return false;
    while (*text == ',') {
        text++;
        if (!take_range(&text, &taken.cpus))
            return false;
    }
    if (*text != '\0')
        return false;
    *list = taken;
    return true;
}

/* The kernel leaves out those that are not there: all of them must be. */
bool cpu_list_apply(const struct cpu_list *list)
{
    cpu_set_t bound;
    if (!list->given)
        return true;
    if (sched_setaffinity(0, sizeof list->cpus, &list->cpus) != 0 ||
        sched_getaffinity(0, sizeof bound, &bound) != 0)
        return false;
    if (CPU_EQUAL(&bound, &list->cpus))
        return true;
    errno = EINVAL;
    return false;
}

#include "common/numbers/delay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SHAPE 2.5
#define MOST_SHAPE    1000.0
#define TEXT_BYTES    64u

/* Reads a plain decimal number at *text and moves *text behind it. False: there is none. */
static bool take_delay_number(const char **text, double *number)
{
    size_t digits = strspn(*text, "0123456789.");
    char *end;
    if (digits == 0 || **text == '.')
        return false;
    *number = strtod(*text, &end);
    bool whole = end == *text + digits;
    *text = end;
    return whole;
}

static bool take_time(const char **text, double *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    if (!take_delay_number(text, ns))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t size = strlen(units[i].name);
        if (strncmp(*text, units[i].name, size) == 0) {
            *ns *= units[i].ns;
            *text += size;
            return true;
        }
    }
    return *ns == 0;
}

static bool take_fixed(const char **text, struct delay *delay)
{
    return take_time(text, &delay->time_ns);
}

static bool take_uniform(const char **text, struct delay *delay)
{
    if (!take_time(text, &delay->time_ns) || *(*text)++ != '-')
        return false;
    return take_time(text, &delay->most_ns) && delay->most_ns >= delay->time_ns;
}

static bool take_pareto(const char **text, struct delay *delay)
{
    delay->shape = DEFAULT_SHAPE;
    if (!take_time(text, &delay->time_ns))
        return false;
    if (**text != ',')
        return true;
    ++*text;
    return take_delay_number(text, &delay->shape) && delay->shape > 1 && delay->shape <= MOST_SHAPE;
}

static bool take_nothing(const char **text, struct delay *delay)
{
    (void)text, (void)delay;
    return true;
}

static const struct {
    const char *begin;
    enum delay_kind kind;
    bool (*take)(const char **text, struct delay *delay);
} kinds[] = {
    {"off", DELAY_OFF, take_nothing},          {"fixed:", DELAY_FIXED, take_fixed},
    {"uniform:", DELAY_UNIFORM, take_uniform}, {"exp:", DELAY_EXPONENTIAL, take_fixed},
    {"pareto:", DELAY_PARETO, take_pareto},
};

/* Takes the whole text. */
static bool parse_delay_text(const char *text, struct delay *delay)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t size = strlen(kinds[i].begin);
        if (strncmp(text, kinds[i].begin, size) != 0)
            continue;
        text += size;
        delay->kind = kinds[i].kind;
        return kinds[i].take(&text, delay) && *text == '\0';
    }
    return false;
}

bool delay_parse(const char *text, size_t bytes, double cap_ns, struct delay *delay)
{
    char copy[TEXT_BYTES];
    struct delay taken = {.cap_ns = cap_ns};
    if (bytes >= sizeof copy || memchr(text, '\0', bytes))
        return false;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    if (!parse_delay_text(copy, &taken) || taken.time_ns > cap_ns || taken.most_ns > cap_ns)
        return false;
    if (taken.time_ns == 0 && taken.most_ns == 0)
        taken.kind = DELAY_OFF;
    *delay = taken;
    return true;
}

/* Draws from (0, 1], all equally likely: a logarithm of it is finite. */
static double unit_above_zero(struct random_state *random)
{
    return 1 - random_unit(random);
}

static double draw_uncapped_ns(const struct delay *delay, struct random_state *random)
{
    switch (delay->kind) {
    case DELAY_OFF:
        return 0;
    case DELAY_FIXED:
        return delay->time_ns;
    case DELAY_UNIFORM:
        return delay->time_ns + (delay->most_ns - delay->time_ns) * random_unit(random);
    case DELAY_EXPONENTIAL:
        return -delay->time_ns * log(unit_above_zero(random));
    case DELAY_PARETO: {
        double least_ns = delay->time_ns * (delay->shape - 1) / delay->shape;
        return least_ns * pow(unit_above_zero(random), -1 / delay->shape);
    }
    }
    return 0;
}

uint64_t delay_draw_ns(const struct delay *delay, struct random_state *random)
{
    double ns = draw_uncapped_ns(delay, random);
    return (uint64_t)(ns < delay->cap_ns ? ns : delay->cap_ns);
}

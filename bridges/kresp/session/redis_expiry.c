#include "bridges/kresp/session/redis_expiry.h"

#include "common/time/clock.h"
#include "bridges/kresp/session/redis_command.h"

bool redis_expiry_parse(struct redis_job *job, size_t i, struct redis_time_unit unit, bool positive,
                        int64_t *expiry_ms)
{
    int64_t time, from = unit.absolute ? 0 : (int64_t)clock_realtime_ms();
    if (!redis_argument_integer(job, i, &time))
        return false;
    bool in_range = !(positive && time <= 0);
    if (unit.seconds)
        in_range = in_range && !__builtin_mul_overflow(time, 1000, &time);
    in_range = in_range && !__builtin_add_overflow(time, from, &time);
    if (!in_range) {
        redis_job_fail(job, "ERR invalid expire time in '%s' command", job->command->name);
        return false;
    }
    *expiry_ms = time;
    return true;
}

bool redis_expiry_option(const struct redis_job *job, size_t i, struct redis_time_unit *unit)
{
    static const struct {
        const char *word;
        struct redis_time_unit unit;
    } options[] = {{"EX", {true, false}},
                   {"PX", {false, false}},
                   {"EXAT", {true, true}},
                   {"PXAT", {false, true}}};
    for (size_t option = 0; option < sizeof options / sizeof options[0]; option++) {
        if (redis_argument_is(job, i, options[option].word)) {
            *unit = options[option].unit;
            return true;
        }
    }
    return false;
}

#include "kvstore/table/spare_berths.h"

#include <stdlib.h>

#include "common/assert/assert.h"
#include "kvstore/format/sizes.h"
#include "common/time/clock.h"

#define SPARES_AT_FIRST 64u
#define SPARES_MAX      (UINT32_C(1) << 16)

/* Where each sync is waited for, berths of a second and more are spare: no more than these. */
#define SPARES_MAX_BYTES (UINT64_C(256) << 20)

/* How many berths are looked at for one content. */
#define TAKE_LOOKS 16u

/* A berth that was rejected so often fits nothing that is written now. */
#define REJECTIONS_MAX 16u

/* A berth is at most by this part larger than its content. */
#define SLACK_PART 4u

/* Berths that nobody takes for so long are worth a compaction. */
#define USE_MS UINT64_C(3000)

static struct spare_berth *spare_at(const struct spare_berths *spares, uint32_t number)
{
    KV_ASSERT(number < spares->count);
    return &spares->ring[(spares->first + number) & (spares->capacity - 1)];
}

static bool make_room(struct spare_berths *spares)
{
    uint32_t capacity = spares->capacity > 0 ? 2 * spares->capacity : SPARES_AT_FIRST;
    if (spares->count < spares->capacity)
        return true;
    struct spare_berth *ring = capacity <= SPARES_MAX ? malloc(capacity * sizeof *ring) : NULL;
    if (!ring)
        return false;
    for (uint32_t i = 0; i < spares->count; i++)
        ring[i] = *spare_at(spares, i);
    free(spares->ring);
    spares->ring = ring;
    spares->first = 0;
    spares->capacity = capacity;
    return true;
}

void spare_berths_add(struct spare_berths *spares, const struct spare_berth *berth)
{
    if (berth->rejections == REJECTIONS_MAX ||
        spares->bytes + berth->capacity_bytes > SPARES_MAX_BYTES || !make_room(spares))
        return;
    spares->count++;
    *spare_at(spares, spares->count - 1) = *berth;
    spares->bytes += berth->capacity_bytes;
}

static void drop_first(struct spare_berths *spares)
{
    spares->bytes -= spare_at(spares, 0)->capacity_bytes;
    spares->first = (spares->first + 1) & (spares->capacity - 1);
    spares->count--;
}

static bool berth_fits(const struct spare_berth *berth, uint64_t size_bytes)
{
    return berth->capacity_bytes >= size_bytes &&
           berth->capacity_bytes - size_bytes <= size_bytes / SLACK_PART;
}

bool spare_berths_take(struct spare_berths *spares, uint64_t size_bytes,
                       const struct spare_terms *terms, uint64_t *offset, bool *before_sync)
{
    uint32_t looks = spares->count < TAKE_LOOKS ? spares->count : TAKE_LOOKS;
    for (; looks > 0; looks--) {
        struct spare_berth berth = *spare_at(spares, 0);
        bool durable = berth.position <= terms->durable_position;
        bool waits = !durable && berth.offset < terms->promised_end;
        if (waits && terms->promised_end == UINT64_MAX)
            return false; /* as those behind it do */
        drop_first(spares);
        if (!waits && berth_fits(&berth, size_bytes) &&
            !terms->is_read(terms->context, berth.offset)) {
            *offset = berth.offset;
            *before_sync = !durable;
            spares->used_ms = clock_monotonic_coarse_ms();
            return true;
        }
        berth.rejections += !waits;
        spare_berths_add(spares, &berth); /* the next look is at others */
    }
    return false;
}

uint64_t spare_berths_bytes_in_use(const struct spare_berths *spares)
{
    if (spares->count == 0)
        return 0;
    uint64_t last_ms = at_least(spares->used_ms, spare_at(spares, 0)->since_ms);
    return clock_monotonic_coarse_ms() - last_ms < USE_MS ? spares->bytes : 0;
}

void spare_berths_forget(struct spare_berths *spares)
{
    free(spares->ring);
    *spares = (struct spare_berths){.used_ms = spares->used_ms};
}

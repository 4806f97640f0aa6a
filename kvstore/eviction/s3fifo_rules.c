#include "kvstore/eviction/s3fifo_rules.h"

#include <stdlib.h>
#include <string.h>

/* The main queue's length is divided into this many epochs: a ghost lasts for as many. */
#define EPOCHS 16u

#define MOST_PLACES (UINT32_C(1) << 31)

bool s3fifo_ghosts_begin(struct s3fifo_ghosts *ghosts, uint32_t places)
{
    *ghosts = (struct s3fifo_ghosts){
        .places = calloc(places, sizeof *ghosts->places), .mask = places - 1, .epoch = EPOCHS + 1};
    return ghosts->places;
}

void s3fifo_ghosts_end(struct s3fifo_ghosts *ghosts)
{
    free(ghosts->places);
    ghosts->places = NULL;
}

/* Both places that the keys of one go to begin with its ghost. */
void s3fifo_ghosts_expect(struct s3fifo_ghosts *ghosts, uint64_t main_count)
{
    size_t count = (size_t)ghosts->mask + 1;
    if (main_count <= count || count >= MOST_PLACES)
        return;
    struct s3fifo_ghost *larger = realloc(ghosts->places, 2 * count * sizeof *larger);
    if (!larger)
        return;
    memcpy(larger + count, larger, count * sizeof *larger);
    ghosts->places = larger;
    ghosts->mask = (uint32_t)(2 * count - 1);
}

void s3fifo_ghosts_leave(struct s3fifo_ghosts *ghosts, uint32_t hash, uint64_t main_count)
{
    ghosts->places[hash & ghosts->mask] =
        (struct s3fifo_ghost){(uint16_t)(hash >> 16), ghosts->epoch};
    if (++ghosts->epoch_evictions <= main_count / EPOCHS)
        return;
    ghosts->epoch_evictions = 0;
    ghosts->epoch += ghosts->epoch == UINT16_MAX ? 2 : 1;
}

bool s3fifo_ghosts_has(const struct s3fifo_ghosts *ghosts, uint32_t hash)
{
    const struct s3fifo_ghost *ghost = &ghosts->places[hash & ghosts->mask];
    return ghost->epoch != 0 && ghost->bits == (uint16_t)(hash >> 16) &&
           (uint16_t)(ghosts->epoch - ghost->epoch) <= EPOCHS;
}

uint64_t s3fifo_ghosts_memory_bytes(const struct s3fifo_ghosts *ghosts)
{
    return ((uint64_t)ghosts->mask + 1) * sizeof *ghosts->places;
}

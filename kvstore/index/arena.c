#include "kvstore/index/arena.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define FORBID(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define ALLOW(at, bytes)  ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define FORBID(at, bytes) ((void)(at), (void)(bytes))
#define ALLOW(at, bytes)  ((void)(at), (void)(bytes))
#endif

/* As far as references reach. The sanitizers keep shadow memory of it. */
#ifdef MQKV_SANITIZER
#define MAX_BYTES (UINT64_C(4) << 30)
#else
#define MAX_BYTES (UINT64_C(1) << 36)
#endif

#define WORD_BITS   64u
#define CHUNK_WORDS ((ARENA_CHUNK_BLOCKS + WORD_BITS - 1) / WORD_BITS)

/* A small chunk of the object is allocated in steps of so many bytes. */
#define STEP_BYTES (UINT64_C(64) << 10)

/* How many chunks are looked at for a run of blocks before a new one is taken. */
#define RUN_LOOKS 16u

#define NO_CHUNK UINT32_MAX

_Static_assert(ARENA_BLOCK_BYTES % SHARED_STORE_REFERENCE_UNIT == 0, "alignment");

enum chunk_kind {
    CHUNK_FREE,      /* no memory is behind it */
    CHUNK_OF_BLOCKS, /* with at least one in use */
    CHUNK_WHOLE      /* one of a run that was taken as a whole */
};

struct chunk {
    uint64_t taken[CHUNK_WORDS]; /* a bit for each block */
    uint32_t next, previous;     /* in the list of those with room: numbers plus 1; 0: none */
    uint16_t used;               /* blocks in use */
    uint16_t touched;            /* blocks from here on are zeros */
    uint16_t ready; /* blocks from here on must not be touched: they may have no memory */
    uint8_t kind;
    bool is_listed;
    bool is_own;
    bool is_large; /* a large page from its first byte on, or asked to become one */
};

/* A block that is given out in units. */
struct slab {
    uint32_t block; /* reference; 0: none */
    uint32_t unit_bytes;
    uint64_t taken; /* a bit for each unit */
};

struct arena {
    struct backing backing; /* constant but for file_bytes */
    pthread_mutex_t mutex;  /* for all below */
    struct chunk *chunks;   /* chunk_room of them; their memory comes as they are used */
    uint32_t chunk_room;
    uint32_t with_room; /* number plus 1 of the first */
    struct slab *slabs;
    size_t slab_count;
    bool is_claimed; /* arena_adopt to arena_end_claims: no chunk is given back */
    struct arena_counts counts;
};

/* Sizes of units of slabs. */
static const uint32_t unit_sizes[] = {64, 512};
#define UNIT_SIZES   (sizeof unit_sizes / sizeof unit_sizes[0])
#define MAX_UNIT     512u
#define MAX_OF_UNITS 64u

/* Places --------------------------------------------------------------------------------------- */

static uint64_t chunk_offset(const struct arena *arena, const struct chunk *chunk)
{
    return (uint64_t)(chunk - arena->chunks) * ARENA_CHUNK_BYTES;
}

static uint32_t reference_of(uint64_t offset)
{
    return (uint32_t)(offset / SHARED_STORE_REFERENCE_UNIT);
}

static uint64_t offset_of(uint32_t reference)
{
    return (uint64_t)reference * SHARED_STORE_REFERENCE_UNIT;
}

static bool is_taken(const struct chunk *chunk, uint32_t block)
{
    return chunk->taken[block / WORD_BITS] >> block % WORD_BITS & 1;
}

static void mark(struct chunk *chunk, uint32_t first, uint32_t count)
{
    for (uint32_t block = first; block < first + count; block++)
        chunk->taken[block / WORD_BITS] |= UINT64_C(1) << block % WORD_BITS;
    chunk->used = (uint16_t)(chunk->used + count);
}

static void unmark(struct chunk *chunk, uint32_t first, uint32_t count)
{
    for (uint32_t block = first; block < first + count; block++)
        chunk->taken[block / WORD_BITS] &= ~(UINT64_C(1) << block % WORD_BITS);
    chunk->used = (uint16_t)(chunk->used - count);
}

/* The first free block; ARENA_CHUNK_BLOCKS: there is none. */
static uint32_t first_free(const struct chunk *chunk)
{
    for (uint32_t word = 0; word < CHUNK_WORDS; word++)
        if (chunk->taken[word] != UINT64_MAX)
            return word * WORD_BITS + (uint32_t)__builtin_ctzll(~chunk->taken[word]);
    return ARENA_CHUNK_BLOCKS;
}

/* Where so many free blocks lie one after the other; ARENA_CHUNK_BLOCKS or more: nowhere. */
static uint32_t find_run(const struct chunk *chunk, uint32_t count)
{
    uint32_t first = first_free(chunk);
    for (uint32_t block = first; block < ARENA_CHUNK_BLOCKS && block - first < count; block++)
        if (is_taken(chunk, block))
            first = block + 1;
    return first + count <= ARENA_CHUNK_BLOCKS ? first : ARENA_CHUNK_BLOCKS;
}

/* Chunks --------------------------------------------------------------------------------------- */

static void enlist(struct arena *arena, struct chunk *chunk)
{
    uint32_t number = (uint32_t)(chunk - arena->chunks);
    if (chunk->is_listed)
        return;
    chunk->is_listed = true;
    chunk->previous = 0;
    chunk->next = arena->with_room;
    if (chunk->next)
        arena->chunks[chunk->next - 1].previous = number + 1;
    arena->with_room = number + 1;
}

static void delist(struct arena *arena, struct chunk *chunk)
{
    if (!chunk->is_listed)
        return;
    chunk->is_listed = false;
    *(chunk->previous ? &arena->chunks[chunk->previous - 1].next : &arena->with_room) = chunk->next;
    if (chunk->next)
        arena->chunks[chunk->next - 1].previous = chunk->previous;
}

static uint32_t chunks_before(uint64_t bytes)
{
    return (uint32_t)((bytes + ARENA_CHUNK_BYTES - 1) / ARENA_CHUNK_BYTES);
}

/* So many free chunks, one after the other, in [from, to). */
static uint32_t find_chunks(const struct arena *arena, uint32_t from, uint32_t to, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t number = from; number < to; number++) {
        found = arena->chunks[number].kind == CHUNK_FREE ? found + 1 : 0;
        if (found == count)
            return number + 1 - count;
    }
    return NO_CHUNK;
}

/* Says where the object ends to those who have mapped it. */
static void publish_size(struct arena *arena)
{
    struct shared_store *header = (void *)arena->backing.base;
    arena->counts.shared_bytes = arena->backing.file_bytes;
    __atomic_store_n(&header->shared_bytes, arena->backing.file_bytes, __ATOMIC_RELEASE);
}

/* Memory of the object, for the first `bytes` bytes of the chunks. */
static uint32_t place_in_object(struct arena *arena, uint32_t count, uint64_t bytes)
{
    uint32_t end =
        arena->counts.own_chunks > 0 ? chunks_before(arena->backing.file_bytes) : arena->chunk_room;
    uint32_t first = find_chunks(arena, 0, end, count);
    if (first == NO_CHUNK)
        return NO_CHUNK;
    uint64_t offset = (uint64_t)first * ARENA_CHUNK_BYTES;
    bool grows = offset + bytes > arena->backing.file_bytes;
    if (arena->counts.own_chunks > 0 && grows)
        return NO_CHUNK;
    if (!backing_allocate(&arena->backing, offset, bytes))
        return NO_CHUNK;
    if (grows)
        publish_size(arena);
    return first;
}

static uint32_t place_apart(struct arena *arena, uint32_t count)
{
    uint32_t from = chunks_before(arena->backing.file_bytes);
    uint32_t first = find_chunks(arena, from, arena->chunk_room, count);
    if (first == NO_CHUNK || !backing_own(&arena->backing, (uint64_t)first * ARENA_CHUNK_BYTES,
                                          count * ARENA_CHUNK_BYTES))
        return NO_CHUNK;
    arena->counts.own_chunks += count;
    return first;
}

/* Zeros, in chunks one after the other, the first `bytes` bytes of which may be touched. The object
 * is never given up for good: a full file system may have room later. */
static struct chunk *place_chunks(struct arena *arena, uint32_t count, uint64_t bytes,
                                  enum chunk_kind kind)
{
    bool in_object = arena->backing.fd >= 0;
    uint32_t first = in_object ? place_in_object(arena, count, bytes) : NO_CHUNK;
    bool own = first == NO_CHUNK;
    if (own)
        first = place_apart(arena, count);
    if (first == NO_CHUNK)
        return NULL;
    arena->counts.chunks += count;
    for (uint32_t number = first; number < first + count; number++)
        arena->chunks[number] = (struct chunk){.kind = kind, .is_own = own};
    return &arena->chunks[first];
}

static void want_large_page(const struct arena *arena, struct chunk *chunk)
{
    if (!chunk->is_large)
        backing_want_large_pages(&arena->backing, chunk_offset(arena, chunk), ARENA_CHUNK_BYTES,
                                 chunk->is_own);
    chunk->is_large = true;
}

static struct chunk *add_chunk(struct arena *arena)
{
    bool small = arena->counts.chunks < ARENA_SMALL_CHUNKS;
    uint64_t bytes = small ? STEP_BYTES : ARENA_CHUNK_BYTES;
    struct chunk *chunk = place_chunks(arena, 1, bytes, CHUNK_OF_BLOCKS);
    if (!chunk)
        return NULL;
    bool whole = !small || chunk->is_own;
    chunk->ready = (uint16_t)(whole ? ARENA_CHUNK_BLOCKS : STEP_BYTES / ARENA_BLOCK_BYTES);
    if (!small) /* before the first touch */
        want_large_page(arena, chunk);
    enlist(arena, chunk);
    return chunk;
}

static void remove_chunks(struct arena *arena, struct chunk *first, uint32_t count)
{
    uint64_t offset = chunk_offset(arena, first);
    uint64_t bytes = count * ARENA_CHUNK_BYTES;
    ALLOW(arena->backing.base + offset, bytes);
    if (first->is_own)
        backing_disown(&arena->backing, offset, bytes);
    else
        backing_drop(&arena->backing, offset, bytes);
    arena->counts.own_chunks -= first->is_own ? count : 0;
    arena->counts.chunks -= count;
    for (uint32_t i = 0; i < count; i++) {
        delist(arena, &first[i]);
        first[i] = (struct chunk){.kind = CHUNK_FREE};
    }
}

/* Blocks --------------------------------------------------------------------------------------- */

/* Makes the blocks before `end` of a chunk of the object ones that may be touched. */
static bool make_ready(struct arena *arena, struct chunk *chunk, uint32_t end)
{
    if (end <= chunk->ready)
        return true;
    uint64_t from = (uint64_t)chunk->ready * ARENA_BLOCK_BYTES / STEP_BYTES * STEP_BYTES;
    uint64_t to = ((uint64_t)end * ARENA_BLOCK_BYTES + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
    uint64_t offset = chunk_offset(arena, chunk);
    bool grows = offset + to > arena->backing.file_bytes;
    if (grows && arena->counts.own_chunks > 0 &&
        chunks_before(arena->backing.file_bytes) != chunks_before(offset + to))
        return false;
    if (!backing_allocate(&arena->backing, offset + from, to - from))
        return false;
    if (grows)
        publish_size(arena);
    chunk->ready =
        (uint16_t)(to == ARENA_CHUNK_BYTES ? ARENA_CHUNK_BLOCKS : to / ARENA_BLOCK_BYTES);
    return true;
}

static uint32_t take_from(struct arena *arena, struct chunk *chunk, uint32_t first, uint32_t count)
{
    uint64_t offset = chunk_offset(arena, chunk) + (uint64_t)first * ARENA_BLOCK_BYTES;
    char *at = arena->backing.base + offset;
    ALLOW(at, (size_t)count * ARENA_BLOCK_BYTES);
    if (first < chunk->touched)
        memset(at, 0, (size_t)count * ARENA_BLOCK_BYTES);
    if (first + count > chunk->touched)
        chunk->touched = (uint16_t)(first + count);
    mark(chunk, first, count);
    arena->counts.blocks += count;
    if (chunk->used == ARENA_CHUNK_BLOCKS) {
        delist(arena, chunk);
        want_large_page(arena, chunk);
    }
    return reference_of(offset);
}

/* Tries a chunk. One without more memory behind it is looked at again when a block of it was given
 * back. */
static uint32_t try_chunk(struct arena *arena, struct chunk *chunk, uint32_t count)
{
    uint32_t first = find_run(chunk, count);
    if (first >= ARENA_CHUNK_BLOCKS)
        return 0;
    if (make_ready(arena, chunk, first + count))
        return take_from(arena, chunk, first, count);
    if (count == 1)
        delist(arena, chunk);
    return 0;
}

static uint32_t take_blocks(struct arena *arena, uint32_t count)
{
    uint32_t reference = 0;
    uint32_t next = arena->with_room;
    for (unsigned looks = 0; next && !reference && (count == 1 || looks < RUN_LOOKS); looks++) {
        struct chunk *chunk = &arena->chunks[next - 1];
        next = chunk->next;
        reference = try_chunk(arena, chunk, count);
    }
    if (reference)
        return reference;
    struct chunk *chunk = add_chunk(arena);
    if (!chunk)
        return 0;
    reference = try_chunk(arena, chunk, count);
    if (chunk->used == 0) /* the object has room for a step, but not for the run */
        remove_chunks(arena, chunk, 1);
    return reference;
}

static void give_blocks(struct arena *arena, uint32_t reference, uint32_t count)
{
    uint64_t offset = offset_of(reference);
    struct chunk *chunk = &arena->chunks[offset / ARENA_CHUNK_BYTES];
    uint32_t first = (uint32_t)(offset % ARENA_CHUNK_BYTES / ARENA_BLOCK_BYTES);
    FORBID(arena->backing.base + offset, (size_t)count * ARENA_BLOCK_BYTES);
    unmark(chunk, first, count);
    arena->counts.blocks -= count;
    if (arena->is_claimed)
        return;
    if (chunk->used == 0)
        remove_chunks(arena, chunk, 1);
    else
        enlist(arena, chunk);
}

/* Units ---------------------------------------------------------------------------------------- */

static uint32_t unit_size(uint64_t bytes)
{
    size_t i = 0;
    while (unit_sizes[i] < bytes)
        i++;
    return unit_sizes[i];
}

static uint64_t all_units(uint32_t unit_bytes)
{
    uint32_t count = ARENA_BLOCK_BYTES / unit_bytes;
    return count >= MAX_OF_UNITS ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

/* A slab without a block. */
static struct slab *free_slab(struct arena *arena)
{
    for (size_t i = 0; i < arena->slab_count; i++)
        if (arena->slabs[i].block == 0)
            return &arena->slabs[i];
    size_t room = arena->slab_count ? 2 * arena->slab_count : 8;
    struct slab *slabs = realloc(arena->slabs, room * sizeof *slabs);
    if (!slabs)
        return NULL;
    memset(slabs + arena->slab_count, 0, (room - arena->slab_count) * sizeof *slabs);
    struct slab *slab = slabs + arena->slab_count;
    arena->slabs = slabs;
    arena->slab_count = room;
    return slab;
}

static struct slab *slab_with_room(struct arena *arena, uint32_t unit_bytes)
{
    for (size_t i = 0; i < arena->slab_count; i++) {
        struct slab *slab = &arena->slabs[i];
        if (slab->block && slab->unit_bytes == unit_bytes && slab->taken != all_units(unit_bytes))
            return slab;
    }
    struct slab *slab = free_slab(arena);
    uint32_t block = slab ? take_blocks(arena, 1) : 0;
    if (!block)
        return NULL;
    *slab = (struct slab){.block = block, .unit_bytes = unit_bytes};
    return slab;
}

static uint32_t take_unit(struct arena *arena, uint64_t bytes)
{
    uint32_t size = unit_size(bytes);
    struct slab *slab = slab_with_room(arena, size);
    if (!slab)
        return 0;
    uint32_t unit = (uint32_t)__builtin_ctzll(~slab->taken);
    slab->taken |= UINT64_C(1) << unit;
    uint64_t offset = offset_of(slab->block) + (uint64_t)unit * size;
    memset(arena->backing.base + offset, 0, size);
    return reference_of(offset);
}

static void give_unit(struct arena *arena, uint32_t reference)
{
    struct slab *slab = arena->slabs;
    uint64_t offset = offset_of(reference);
    while (!slab->block || offset < offset_of(slab->block) ||
           offset >= offset_of(slab->block) + ARENA_BLOCK_BYTES)
        slab++;
    slab->taken &= ~(UINT64_C(1) << (offset - offset_of(slab->block)) / slab->unit_bytes);
    if (slab->taken == 0) {
        give_blocks(arena, slab->block, 1);
        *slab = (struct slab){0};
    }
}

/* Any size ------------------------------------------------------------------------------------- */

static uint32_t blocks_for(uint64_t bytes)
{
    return (uint32_t)((bytes + ARENA_BLOCK_BYTES - 1) / ARENA_BLOCK_BYTES);
}

static bool fits_chunk(uint64_t bytes)
{
    return bytes <= ARENA_CHUNK_BLOCKS * ARENA_BLOCK_BYTES;
}

static uint32_t take_whole_chunks(struct arena *arena, uint64_t bytes)
{
    uint32_t count = chunks_before(bytes);
    struct chunk *first = place_chunks(arena, count, count * ARENA_CHUNK_BYTES, CHUNK_WHOLE);
    if (!first)
        return 0;
    arena->counts.blocks += count * ARENA_CHUNK_BLOCKS;
    return reference_of(chunk_offset(arena, first));
}

static void give_whole_chunks(struct arena *arena, uint32_t reference, uint64_t bytes)
{
    uint32_t count = chunks_before(bytes);
    struct chunk *first = &arena->chunks[offset_of(reference) / ARENA_CHUNK_BYTES];
    arena->counts.blocks -= count * ARENA_CHUNK_BLOCKS;
    if (!arena->is_claimed)
        remove_chunks(arena, first, count);
    for (uint32_t i = 0; arena->is_claimed && i < count; i++)
        first[i].kind = CHUNK_OF_BLOCKS; /* of which none is in use */
}

uint32_t arena_take(struct arena *arena, uint64_t bytes)
{
    pthread_mutex_lock(&arena->mutex);
    uint32_t reference = bytes <= MAX_UNIT    ? take_unit(arena, bytes)
                         : !fits_chunk(bytes) ? take_whole_chunks(arena, bytes)
                                              : take_blocks(arena, blocks_for(bytes));
    pthread_mutex_unlock(&arena->mutex);
    return reference;
}

void arena_give(struct arena *arena, uint32_t reference, uint64_t bytes)
{
    if (reference == 0)
        return;
    pthread_mutex_lock(&arena->mutex);
    if (bytes <= MAX_UNIT)
        give_unit(arena, reference);
    else if (!fits_chunk(bytes))
        give_whole_chunks(arena, reference, bytes);
    else
        give_blocks(arena, reference, blocks_for(bytes));
    pthread_mutex_unlock(&arena->mutex);
}

/* Making and ending ---------------------------------------------------------------------------- */

/* The table of chunks: mostly address space. */
static bool allocate_table(struct arena *arena)
{
    arena->chunk_room = (uint32_t)(arena->backing.bytes / ARENA_CHUNK_BYTES);
    arena->chunks = mmap(NULL, arena->chunk_room * sizeof *arena->chunks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena->chunks == MAP_FAILED)
        arena->chunks = NULL;
    return arena->chunks != NULL;
}

static uint64_t whole_steps(uint64_t bytes)
{
    return (bytes + STEP_BYTES - 1) / STEP_BYTES * STEP_BYTES;
}

/* The first chunk, with what is not given out. An object without room is no use to anybody. */
static bool begin(struct arena *arena, uint64_t first_bytes)
{
    uint64_t bytes = whole_steps(first_bytes);
    struct chunk *chunk = place_chunks(arena, 1, bytes, CHUNK_OF_BLOCKS);
    if (!chunk || (arena->backing.fd >= 0 && chunk->is_own))
        return false;
    chunk->ready = (uint16_t)(chunk->is_own ? ARENA_CHUNK_BLOCKS : bytes / ARENA_BLOCK_BYTES);
    mark(chunk, 0, blocks_for(first_bytes));
    chunk->touched = chunk->used;
    enlist(arena, chunk);
    return true;
}

static bool begin_claims(struct arena *arena, uint64_t first_bytes);

static struct arena *make(int fd, uint64_t first_bytes,
                          bool (*begin_it)(struct arena *arena, uint64_t first_bytes))
{
    struct arena *arena = calloc(1, sizeof *arena);
    if (!arena || !backing_reserve(&arena->backing, fd, MAX_BYTES)) {
        int reason = errno;
        if (fd >= 0)
            close(fd);
        free(arena);
        errno = reason;
        return NULL;
    }
    pthread_mutex_init(&arena->mutex, NULL);
    if (!allocate_table(arena) || !begin_it(arena, first_bytes)) {
        int reason = errno;
        arena_free(arena);
        errno = reason;
        return NULL;
    }
    return arena;
}

struct arena *arena_create(int fd, uint64_t first_bytes)
{
    return make(fd, first_bytes, begin);
}

struct arena *arena_adopt(int fd, uint64_t first_bytes)
{
    return make(fd, first_bytes, begin_claims);
}

/* Claims --------------------------------------------------------------------------------------- */

/* The part of the chunk that the object has. */
static uint64_t bytes_in_object(const struct arena *arena, const struct chunk *chunk)
{
    uint64_t offset = chunk_offset(arena, chunk);
    uint64_t left = offset < arena->backing.file_bytes ? arena->backing.file_bytes - offset : 0;
    return left < ARENA_CHUNK_BYTES ? left : ARENA_CHUNK_BYTES;
}

/* Memory is behind all of it from here on: to read a hole could fail with a signal. */
static bool open_chunk(struct arena *arena, struct chunk *chunk, enum chunk_kind kind)
{
    uint64_t bytes = bytes_in_object(arena, chunk);
    if (chunk->kind == kind)
        return true;
    if (chunk->kind == CHUNK_OF_BLOCKS && chunk->used == 0) {
        chunk->kind = (uint8_t)kind;
        return true;
    }
    if (chunk->kind != CHUNK_FREE || bytes == 0 ||
        !backing_allocate(&arena->backing, chunk_offset(arena, chunk), bytes))
        return false;
    *chunk = (struct chunk){.kind = (uint8_t)kind,
                            .touched = ARENA_CHUNK_BLOCKS,
                            .ready = (uint16_t)(bytes / ARENA_BLOCK_BYTES)};
    arena->counts.chunks++;
    return true;
}

static bool claim_blocks(struct arena *arena, uint64_t offset, uint32_t count)
{
    uint64_t within = offset % ARENA_CHUNK_BYTES;
    uint32_t first = (uint32_t)(within / ARENA_BLOCK_BYTES);
    if (offset >= arena->backing.file_bytes || within % ARENA_BLOCK_BYTES != 0)
        return false;
    struct chunk *chunk = &arena->chunks[offset / ARENA_CHUNK_BYTES];
    if (!open_chunk(arena, chunk, CHUNK_OF_BLOCKS) || first + count > chunk->ready)
        return false;
    for (uint32_t block = first; block < first + count; block++)
        if (is_taken(chunk, block))
            return false;
    mark(chunk, first, count);
    ALLOW(arena->backing.base + offset, (size_t)count * ARENA_BLOCK_BYTES);
    arena->counts.blocks += count;
    return true;
}

static struct slab *claim_slab(struct arena *arena, uint64_t offset, uint32_t unit_bytes)
{
    uint64_t within = offset % ARENA_CHUNK_BYTES;
    uint64_t start = offset - within % ARENA_BLOCK_BYTES;
    for (size_t i = 0; i < arena->slab_count; i++)
        if (arena->slabs[i].block == reference_of(start))
            return arena->slabs[i].unit_bytes == unit_bytes ? &arena->slabs[i] : NULL;
    struct slab *slab = free_slab(arena);
    if (!slab || !claim_blocks(arena, start, 1))
        return NULL;
    *slab = (struct slab){.block = reference_of(start), .unit_bytes = unit_bytes};
    return slab;
}

static bool claim_unit(struct arena *arena, uint64_t offset, uint32_t unit_bytes)
{
    struct slab *slab = claim_slab(arena, offset, unit_bytes);
    if (!slab)
        return false;
    uint64_t within = offset - offset_of(slab->block);
    uint64_t unit = UINT64_C(1) << within / unit_bytes % MAX_OF_UNITS;
    bool possible = within % unit_bytes == 0 && (unit & all_units(unit_bytes)) != 0 &&
                    within + unit_bytes <= ARENA_BLOCK_BYTES && (slab->taken & unit) == 0;
    if (possible)
        slab->taken |= unit;
    if (slab->taken == 0) {
        give_blocks(arena, slab->block, 1);
        *slab = (struct slab){0};
    }
    return possible;
}

static bool claim_whole_chunks(struct arena *arena, uint64_t offset, uint64_t bytes)
{
    uint32_t first = (uint32_t)(offset / ARENA_CHUNK_BYTES);
    uint32_t count = chunks_before(bytes);
    if (offset % ARENA_CHUNK_BYTES != 0 || bytes > arena->backing.file_bytes ||
        offset > arena->backing.file_bytes - count * ARENA_CHUNK_BYTES)
        return false;
    for (uint32_t number = first; number < first + count; number++)
        if (arena->chunks[number].used > 0 || arena->chunks[number].kind == CHUNK_WHOLE ||
            !open_chunk(arena, &arena->chunks[number], CHUNK_OF_BLOCKS))
            return false;
    for (uint32_t number = first; number < first + count; number++)
        arena->chunks[number].kind = CHUNK_WHOLE;
    arena->counts.blocks += count * ARENA_CHUNK_BLOCKS;
    return true;
}

static bool begin_claims(struct arena *arena, uint64_t first_bytes)
{
    struct chunk *chunk = arena->chunks;
    errno = EINVAL;
    if (arena->backing.file_bytes < whole_steps(first_bytes) ||
        !open_chunk(arena, chunk, CHUNK_OF_BLOCKS))
        return false;
    arena->is_claimed = true;
    mark(chunk, 0, blocks_for(first_bytes));
    return true;
}

bool arena_claim(struct arena *arena, uint32_t reference, uint64_t bytes)
{
    uint64_t offset = offset_of(reference);
    pthread_mutex_lock(&arena->mutex);
    bool claimed = bytes <= MAX_UNIT    ? claim_unit(arena, offset, unit_size(bytes))
                   : !fits_chunk(bytes) ? claim_whole_chunks(arena, offset, bytes)
                                        : claim_blocks(arena, offset, blocks_for(bytes));
    pthread_mutex_unlock(&arena->mutex);
    return claimed;
}

void arena_end_claims(struct arena *arena)
{
    pthread_mutex_lock(&arena->mutex);
    arena->is_claimed = false;
    uint32_t end = chunks_before(arena->backing.file_bytes);
    for (uint32_t number = 0; number < end; number++) {
        struct chunk *chunk = &arena->chunks[number];
        if (chunk->kind == CHUNK_FREE)
            backing_drop(&arena->backing, chunk_offset(arena, chunk), ARENA_CHUNK_BYTES);
        else if (chunk->kind == CHUNK_OF_BLOCKS && chunk->used == 0)
            remove_chunks(arena, chunk, 1);
        else if (chunk->kind == CHUNK_OF_BLOCKS && chunk->used < ARENA_CHUNK_BLOCKS)
            enlist(arena, chunk);
    }
    publish_size(arena);
    pthread_mutex_unlock(&arena->mutex);
}

void arena_free(struct arena *arena)
{
    if (!arena)
        return;
    for (uint32_t number = 0; arena->chunks && number < arena->chunk_room; number++)
        if (arena->chunks[number].kind != CHUNK_FREE)
            ALLOW(arena->backing.base + number * ARENA_CHUNK_BYTES, ARENA_CHUNK_BYTES);
    if (arena->chunks)
        munmap(arena->chunks, arena->chunk_room * sizeof *arena->chunks);
    backing_release(&arena->backing);
    pthread_mutex_destroy(&arena->mutex);
    free(arena->slabs);
    free(arena);
}

char *arena_base(const struct arena *arena)
{
    return arena->backing.base;
}

bool arena_is_shared(const struct arena *arena)
{
    return arena->backing.fd >= 0;
}

struct arena_counts arena_counts(struct arena *arena)
{
    pthread_mutex_lock(&arena->mutex);
    struct arena_counts now = arena->counts;
    pthread_mutex_unlock(&arena->mutex);
    return now;
}

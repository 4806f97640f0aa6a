#include "kvstore/index/index.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"
#include "tests/support/test_suite.h"

/* The model: a plain list of what should be in the index. Offsets are unique, as in a file, and
 * stand for keys: "the key matches" means "the offset is the wanted one". */
struct model {
    struct index_item *items;
    size_t count;
};

static struct arena *arena;
static struct shared_generation words;
static struct index *table;
static struct model model;
static uint64_t next_offset;

/* Success leaves no note, as that of ck_assert does in a file: for what holds a million times. */
#define assert_often(condition)                            \
    do {                                                   \
        if (!(condition))                                  \
            ck_abort_msg("does not hold: %s", #condition); \
    } while (0)

static void set_up(void)
{
    arena = arena_create(-1, SHARED_STORE_HEADER_BYTES);
    ck_assert_ptr_nonnull(arena);
    table = index_create(arena, &words);
    ck_assert_ptr_nonnull(table);
    model.items = malloc(400000 * sizeof *model.items);
    model.count = 0;
    next_offset = 4096;
}

static void tear_down(void)
{
    index_free(table);
    ck_assert_uint_eq(arena_counts(arena).blocks, 0);
    arena_free(arena);
    free(model.items);
}

static bool add(uint32_t hash)
{
    if (!index_reserve(table, hash))
        return false;
    index_insert(table, hash, next_offset);
    model.items[model.count++] = (struct index_item){hash, next_offset};
    next_offset += 8;
    return true;
}

/* Leaves the probe at the item, if it is there. */
static bool find(struct index_probe *probe, struct index_item wanted)
{
    uint64_t offset;
    index_probe_start(probe, table, wanted.hash);
    while (index_probe_next(probe, &offset))
        if (offset == wanted.offset_bytes)
            return true;
    return false;
}

static void remove_at(size_t i)
{
    struct index_probe probe;
    ck_assert(find(&probe, model.items[i]));
    index_probe_remove(&probe);
    ck_assert(!find(&probe, model.items[i]));
    model.items[i] = model.items[--model.count];
}

static void replace_at(size_t i)
{
    struct index_probe probe;
    ck_assert(find(&probe, model.items[i]));
    index_probe_replace(&probe, next_offset);
    ck_assert(!find(&probe, model.items[i]));
    model.items[i].offset_bytes = next_offset;
    next_offset += 8;
}

static int compare_items(const void *a, const void *b)
{
    const struct index_item *x = a;
    const struct index_item *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->offset_bytes < y->offset_bytes ? -1 : x->offset_bytes > y->offset_bytes;
}

/* Walks the whole index with the given room and compares it with the model. */
static void assert_collects_model(size_t capacity)
{
    struct index_item *items = malloc((capacity + INDEX_SEGMENT_SLOTS) * sizeof *items);
    qsort(model.items, model.count, sizeof *model.items, compare_items);
    size_t seen = 0;
    for (uint64_t hash = 0; hash < INDEX_HASH_END;) {
        uint64_t next;
        size_t room = capacity;
        size_t count = index_collect(table, hash, items, room, &next);
        if (count == 0 && next == hash) { /* one hash has more items than that */
            room = INDEX_SEGMENT_SLOTS;
            count = index_collect(table, hash, items, room, &next);
        }
        assert_often(count <= room);
        assert_often(next > hash);
        for (size_t i = 0; i < count; i++, seen++) {
            assert_often(seen < model.count);
            assert_often(items[i].hash == model.items[seen].hash);
            assert_often(items[i].hash >= hash && items[i].hash < next);
        }
        hash = next;
    }
    ck_assert_uint_eq(seen, model.count);
    free(items);
}

static void assert_finds_model(void)
{
    struct index_probe probe;
    for (size_t i = 0; i < model.count; i++)
        assert_often(find(&probe, model.items[i]));
    ck_assert_uint_eq(index_count(table), model.count);
}

/* Kinds of hash distribution: the good one, and some that are not. */
enum { UNIFORM, FEW_TOP_BITS, FEW_LOW_BITS, FEW_HASHES, SEQUENTIAL, DISTRIBUTIONS };

static uint32_t draw_hash(struct random_state *random, int distribution)
{
    uint32_t hash = (uint32_t)random_next(random);
    switch (distribution) {
    case FEW_TOP_BITS:
        return hash & 0x00FFFFFF;
    case FEW_LOW_BITS:
        return hash & 0xFFFFFE00;
    case FEW_HASHES:
        return (hash % 64) << 26;
    case SEQUENTIAL:
        return (uint32_t)(next_offset / 8) << 16;
    default:
        return hash;
    }
}

START_TEST(behaves_as_the_model)
{
    struct random_state random;
    random_seed(&random, (uint64_t)_i);
    int distribution = _i % DISTRIBUTIONS;
    for (int step = 0; step < 20000; step++) {
        uint64_t dice = random_below(&random, 100);
        uint64_t grow_until = step < 10000 ? 60 : 30;
        if (dice < grow_until || model.count == 0)
            ck_assert(add(draw_hash(&random, distribution)));
        else if (dice < 80)
            remove_at(random_below(&random, model.count));
        else
            replace_at(random_below(&random, model.count));
        if (step % 2500 == 0) {
            assert_finds_model();
            assert_collects_model(1 + random_below(&random, 600));
        }
    }
    assert_finds_model();
    assert_collects_model(INDEX_SEGMENT_SLOTS);
    assert_collects_model(1);
    while (model.count > 0)
        remove_at(model.count - 1);
    ck_assert_uint_eq(index_count(table), 0);
    assert_collects_model(7);
}
END_TEST

START_TEST(absent_hash_gives_no_candidate)
{
    for (uint32_t hash = 0; hash < 100000; hash += 2)
        ck_assert(add(hash * 40503));
    for (uint32_t hash = 1; hash < 100000; hash += 2) {
        struct index_probe probe;
        uint64_t offset;
        index_probe_start(&probe, table, hash * 40503);
        ck_assert(!index_probe_next(&probe, &offset));
    }
}
END_TEST

START_TEST(removal_during_a_walk_skips_nothing)
{
    const uint32_t hash = 0xFFFFFFFF;
    for (uint32_t other = 0; other < 300; other++)
        ck_assert(add(hash - other % 3 * 512));
    struct index_probe probe;
    uint64_t offset;
    size_t seen = 0;
    index_probe_start(&probe, table, hash);
    while (index_probe_next(&probe, &offset)) {
        seen++;
        index_probe_remove(&probe);
    }
    ck_assert_uint_eq(seen, 100);
    ck_assert_uint_eq(index_count(table), 200);
    index_probe_start(&probe, table, hash - 512);
    for (seen = 0; index_probe_next(&probe, &offset); seen++)
        ;
    ck_assert_uint_eq(seen, 100);
}
END_TEST

/* Whether items were moved since; none is being moved now. */
static bool has_moved(uint64_t *moves)
{
    uint64_t before = *moves;
    *moves = index_moves(table);
    ck_assert_uint_eq(*moves % 2, 0);
    return *moves != before;
}

/* A probe without the lock goes by this: it may have missed what was moved past it. */
START_TEST(moves_are_counted)
{
    uint64_t moves = index_moves(table);
    ck_assert(add(1));
    ck_assert(has_moved(&moves));
    ck_assert(add(1));
    ck_assert(has_moved(&moves));
    replace_at(0);
    ck_assert(!has_moved(&moves));
    remove_at(0);
    ck_assert(has_moved(&moves));
    uint64_t bytes = index_memory_bytes(table);
    for (uint32_t i = 1; index_reserve(table, i << 22) && index_memory_bytes(table) == bytes; i++) {
        ck_assert(!has_moved(&moves));
        ck_assert(add(i << 22));
        ck_assert(has_moved(&moves));
    }
    ck_assert_uint_gt(index_memory_bytes(table), bytes); /* it was split */
    ck_assert(has_moved(&moves));
}
END_TEST

START_TEST(offset_keeps_all_its_bits)
{
    const uint64_t greatest = UINT64_C(0xFFFFFFFF) * 8;
    struct index_probe probe;
    uint64_t offset = 0;
    ck_assert(index_reserve(table, 5));
    index_insert(table, 5, greatest);
    index_probe_start(&probe, table, 5);
    ck_assert(index_probe_next(&probe, &offset));
    ck_assert_uint_eq(offset, greatest);
}
END_TEST

START_TEST(equal_hashes_fill_one_segment_and_are_then_refused)
{
    size_t added = 0;
    while (added < 10 * INDEX_SEGMENT_SLOTS && add(0xABCD1234))
        added++;
    ck_assert_uint_eq(added, INDEX_SEGMENT_SLOTS);
    assert_finds_model();
    assert_collects_model(3);

    uint64_t bytes_when_full = index_memory_bytes(table);
    for (int i = 0; i < 1000; i++)
        ck_assert(!index_reserve(table, 0xABCD1234));
    ck_assert_uint_eq(index_memory_bytes(table), bytes_when_full);
    ck_assert_msg(add(0x12345678), "other hashes must go on to work");

    remove_at(0);
    ck_assert(add(0xABCD1234));
    assert_finds_model();
}
END_TEST

START_TEST(crowded_hashes_cost_bounded_memory)
{
    struct random_state random;
    random_seed(&random, 5);
    uint32_t common_bits = (uint32_t)_i;
    uint64_t refused = 0;
    for (int i = 0; i < 200000; i++) {
        uint32_t hash = (uint32_t)random_next(&random) >> common_bits;
        if (!add(hash))
            refused++;
    }
    ck_assert_uint_eq(refused + model.count, 200000);
    /* With a good hash 17 bytes a key; empty halves of splits and a directory of 64 entries a
     * segment, or of 8 MiB, come on top. */
    ck_assert_uint_le(index_memory_bytes(table), model.count * 40 + (UINT64_C(9) << 20));
    if (common_bits <= 4)
        ck_assert_uint_eq(refused, 0);
    assert_finds_model();
    assert_collects_model(100);
}
END_TEST

/* As a checkpoint or a scan gives them: good hashes, but the lowest of them first. */
START_TEST(ascending_hashes_are_taken)
{
    uint32_t distance = UINT32_C(4096) >> (2 * _i); /* of 1, 4, 16, 64 million keys */
    for (uint32_t i = 0; i < 20000; i++)
        ck_assert(add(i * distance));
    assert_finds_model();
    assert_collects_model(INDEX_SEGMENT_SLOTS);
}
END_TEST

START_TEST(memory_stays_about_16_bytes_a_key)
{
    struct random_state random;
    random_seed(&random, 6);
    for (int i = 0; i < 300000; i++) {
        assert_often(add((uint32_t)random_next(&random)));
        if (model.count >= 1000)
            assert_often(index_memory_bytes(table) <= model.count * 17);
    }
}
END_TEST

START_TEST(sweep_visits_just_the_segments_that_may_have_expired)
{
    struct random_state random;
    random_seed(&random, 7);
    for (int i = 0; i < 50000; i++)
        assert_often(add((uint32_t)random_next(&random)));
    ck_assert_uint_eq(index_next_expiring(table, 0, UINT64_MAX - 1), INDEX_HASH_END);

    const uint32_t hash = model.items[1234].hash;
    index_note_expiry(table, hash, 1000);
    index_note_expiry(table, hash, 2000); /* a bound is never raised by a note */
    ck_assert_uint_eq(index_next_expiring(table, 0, 999), INDEX_HASH_END);
    uint64_t start = index_next_expiring(table, 0, 1000);
    ck_assert_uint_le(start, hash);

    struct index_item items[INDEX_SEGMENT_SLOTS];
    uint64_t next;
    size_t count = index_collect(table, start, items, INDEX_SEGMENT_SLOTS, &next);
    bool in_segment = false;
    for (size_t i = 0; i < count; i++)
        in_segment |= items[i].hash == hash;
    ck_assert(in_segment);
    ck_assert_uint_eq(index_next_expiring(table, next, 1000), INDEX_HASH_END);

    index_set_expiry_bound(table, hash, UINT64_MAX);
    ck_assert_uint_eq(index_next_expiring(table, 0, UINT64_MAX - 1), INDEX_HASH_END);
}
END_TEST

/* Every hash with an expiry must be met by a walk over the expiring segments, however much the
 * index grew since it was noted. */
START_TEST(expiry_bounds_survive_splits)
{
    struct random_state random;
    random_seed(&random, 8);
    enum { EXPIRING = 20 };
    uint32_t expiring[EXPIRING];
    for (int i = 0; i < 100000; i++) {
        uint32_t hash = (uint32_t)random_next(&random);
        assert_often(add(hash));
        if (i < EXPIRING) {
            expiring[i] = hash;
            index_note_expiry(table, hash, 500);
        }
    }
    unsigned met = 0;
    for (uint64_t from = 0; (from = index_next_expiring(table, from, 500)) < INDEX_HASH_END;) {
        struct index_item items[INDEX_SEGMENT_SLOTS];
        uint64_t next;
        index_collect(table, from, items, INDEX_SEGMENT_SLOTS, &next);
        for (int i = 0; i < EXPIRING; i++)
            met += expiring[i] >= from && expiring[i] < next;
        from = next;
    }
    ck_assert_uint_eq(met, EXPIRING);
}
END_TEST

TEST_SUITE(kvstore_index)
{
    TCase *tests = tcase_create("index");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, behaves_as_the_model, 0, 2 * DISTRIBUTIONS);
    tcase_add_test(tests, absent_hash_gives_no_candidate);
    tcase_add_test(tests, removal_during_a_walk_skips_nothing);
    tcase_add_test(tests, moves_are_counted);
    tcase_add_test(tests, offset_keeps_all_its_bits);
    tcase_add_test(tests, equal_hashes_fill_one_segment_and_are_then_refused);
    tcase_add_loop_test(tests, crowded_hashes_cost_bounded_memory, 0, 32);
    tcase_add_loop_test(tests, ascending_hashes_are_taken, 0, 4);
    tcase_add_test(tests, memory_stays_about_16_bytes_a_key);
    tcase_add_test(tests, sweep_visits_just_the_segments_that_may_have_expired);
    tcase_add_test(tests, expiry_bounds_survive_splits);
    suite_add_tcase(suite, tests);
}

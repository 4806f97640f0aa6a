/*
 * The judge of explore_machine: what writes can have left is accepted, and anything else is not.
 */
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/store_model.h"

static const struct model_circumstances plain = {0};
static uint64_t next_word;

/* Another value each time. */
static struct kv_slice another_value(uint64_t *word)
{
    *word = ++next_word;
    return kv_slice(word, sizeof *word);
}

static void begin(void)
{
    model_begin();
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        model_set_file(key, key % 2);
}

static size_t write_done(unsigned key, uint64_t *word, uint64_t version)
{
    struct kv_slice value = another_value(word);
    size_t write = model_try(key, &value, 0);
    EXPLORE_CHECK(!model_note_done(write, version, version), "a version is refused");
    return write;
}

static void find(struct model_finding found[MODEL_KEYS], unsigned key, const uint64_t *word,
                 uint64_t version)
{
    found[key] = (struct model_finding){word != NULL, version, kv_slice(word, word ? 8 : 0)};
}

static void check_judgement(const struct model_finding found[MODEL_KEYS], bool all_done,
                            bool is_right, const char *what)
{
    const char *wrong = model_judge(found, all_done, &plain);
    EXPLORE_CHECK(!wrong == is_right, "%s: %s", what, wrong ? wrong : "accepted");
}

/* Keys 0 and 2 are in one file: what is lost is lost from the end. */
static void judge_the_order_of_a_file(void)
{
    uint64_t words[2];
    for (unsigned way = 0; way < 4; way++) {
        struct model_finding found[MODEL_KEYS] = {0};
        begin();
        write_done(0, &words[0], 1);
        write_done(2, &words[1], 2);
        find(found, 0, way & 1 ? &words[0] : NULL, way & 1 ? 1 : 0);
        find(found, 2, way & 2 ? &words[1] : NULL, way & 2 ? 2 : 0);
        check_judgement(found, false, way != 2, "the end of a file is lost");
        begin();
        size_t write = write_done(0, &words[0], 1);
        write_done(2, &words[1], 2);
        find(found, 0, way & 1 ? &words[0] : NULL, way & 1 ? 1 : 0);
        find(found, 2, way & 2 ? &words[1] : NULL, way & 2 ? 2 : 0);
        model_note_durable(write);
        check_judgement(found, false, way & 1, "what was durable is there");
    }
}

static void judge_what_was_lost(void)
{
    uint64_t word;
    struct model_finding found[MODEL_KEYS] = {0};
    begin();
    write_done(0, &word, 1);
    check_judgement(found, false, true, "what was not durable is lost");
    find(found, 0, &word, 1);
    check_judgement(found, false, false, "what was lost comes back");
}

/* Keys 0 and 1 are in two files. */
static void judge_writes_together(void)
{
    for (unsigned way = 0; way < 16; way++) {
        struct model_finding found[MODEL_KEYS] = {0};
        uint64_t before, words[2];
        bool is_done = way & 4, was_there = way & 8;
        begin();
        if (was_there)
            model_note_durable(write_done(0, &before, 1));
        struct kv_slice values[2] = {another_value(&words[0]), another_value(&words[1])};
        const struct model_part parts[2] = {{0, &values[0], 0}, {1, &values[1], 0}};
        size_t first = model_try_together(parts, 2);
        if (is_done) {
            model_note_done(first, 2, 2);
            model_note_done(first + 1, 2, 2);
        }
        if (way & 1)
            find(found, 0, &words[0], 2);
        else if (was_there)
            find(found, 0, &before, 1);
        if (way & 2)
            find(found, 1, &words[1], 2);
        bool is_whole = (way & 3) == 0 || (way & 3) == 3;
        check_judgement(found, false, is_whole, "writes that were tried together");
    }
}

/* A part that has expired tells nothing; nor does a part that was removed where nothing was. */
static void judge_parts_that_are_not_seen(void)
{
    struct model_finding found[MODEL_KEYS] = {0};
    uint64_t words[2];
    begin();
    struct kv_slice values[2] = {another_value(&words[0]), another_value(&words[1])};
    const struct model_part parts[3] = {{0, &values[0], 0}, {1, &values[1], 5}, {2, NULL, 0}};
    model_try_together(parts, 3);
    find(found, 0, &words[0], 1);
    const struct model_circumstances later = {.now_ms = 10, .latest_ms = 10};
    const char *wrong = model_judge(found, false, &later);
    EXPLORE_CHECK(!wrong, "parts that are not seen: %s", wrong);
}

/* A copy of a moment has writes that were lost since, whole. */
static void judge_copies(void)
{
    for (unsigned way = 0; way < 4; way++) {
        struct model_finding nothing[MODEL_KEYS] = {0}, found[MODEL_KEYS] = {0};
        struct model_moment moment;
        uint64_t words[2];
        begin();
        struct kv_slice values[2] = {another_value(&words[0]), another_value(&words[1])};
        const struct model_part parts[2] = {{0, &values[0], 0}, {1, &values[1], 0}};
        size_t first = model_try_together(parts, 2);
        model_note_done(first, 1, 1);
        model_note_done(first + 1, 1, 1);
        model_begin_moment(&moment);
        model_end_moment(&moment);
        check_judgement(nothing, false, true, "nothing was durable");
        if (way & 1)
            find(found, 0, &words[0], 1);
        if (way & 2)
            find(found, 1, &words[1], 1);
        const char *wrong = model_judge_copy(found, &moment, 1, false, &plain);
        EXPLORE_CHECK(!wrong == (way == 3), "a copy: %s", wrong ? wrong : "accepted");
    }
}

/* A file of the second moment, which ends before that: it has not what was lost between the two. */
static void judge_mixed_copies(void)
{
    struct model_finding found[MODEL_KEYS] = {0};
    struct model_moment moments[2];
    uint64_t words[3], lost;
    begin();
    struct kv_slice values[2] = {another_value(&words[0]), another_value(&words[1])};
    const struct model_part parts[2] = {{0, &values[0], 0}, {1, &values[1], 0}};
    size_t first = model_try_together(parts, 2);
    model_note_done(first, 1, 1);
    model_note_done(first + 1, 1, 1);
    model_begin_moment(&moments[0]);
    model_end_moment(&moments[0]);
    write_done(0, &lost, 2);
    find(found, 0, &words[0], 1);
    find(found, 1, &words[1], 1);
    check_judgement(found, false, true, "a write is lost");
    write_done(2, &words[2], 3);
    write_done(0, &lost, 4);
    model_begin_moment(&moments[1]);
    model_end_moment(&moments[1]);
    find(found, 2, &words[2], 3);
    const char *wrong = model_judge_copy(found, moments, 2, true, &plain);
    EXPLORE_CHECK(!wrong, "a mixed copy: %s", wrong);
    find(found, 1, NULL, 0);
    find(found, 0, NULL, 0);
    EXPLORE_CHECK(model_judge_copy(found, moments, 2, true, &plain), "a hole is accepted");
}

static void run_store_model(void)
{
    next_word = explore_random(1000);
    judge_the_order_of_a_file();
    judge_what_was_lost();
    judge_writes_together();
    judge_parts_that_are_not_seen();
    judge_copies();
    judge_mixed_copies();
}

EXPLORE_HARNESS(explore_store_model) = {
    .name = "store-model",
    .invariant = "the judge of stores accepts what writes can have left, and nothing else",
    .run = run_store_model,
};

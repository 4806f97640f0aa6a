#include "tests/explore/store_model.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/explore/explore.h"
#include "tests/explore/seeded_numbers.h"

#define WRITES      2048u
#define VALUE_BYTES (UINT64_C(4) << 20) /* of all values together */

enum state { TRIED, DONE, FAILED, LOST };

struct model_write {
    unsigned key;
    enum state state;
    bool is_there; /* else the key is removed */
    struct kv_slice value;
    uint64_t expiry_ms;
    uint64_t version; /* 0: not known */
    uint64_t done_ns;
    bool is_durable;
    unsigned lost_in; /* the judgement that found it to be lost; 0: none */
    size_t first;     /* of those that it was tried together with; its own number: alone */
};

static struct model_write writes[WRITES];
static size_t count;
static uint8_t values[VALUE_BYTES];
static size_t value_bytes;
static unsigned judgements;
static unsigned file_of[MODEL_KEYS];
static uint64_t told[MODEL_KEYS]; /* the highest version that a writer of the key was told */

__attribute__((format(printf, 1, 2))) static const char *verdict(const char *format, ...)
{
    static char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return text;
}

uint64_t model_draw(struct model_random *random)
{
    return seeded_next(&random->state);
}

uint32_t model_below(struct model_random *random, uint32_t bound)
{
    return (uint32_t)(model_draw(random) % bound);
}

bool model_one_in(struct model_random *random, uint32_t n)
{
    return model_below(random, n) == 0;
}

struct kv_slice model_make_value(struct model_random *random, uint8_t buffer[MODEL_VALUE_BYTES])
{
    /* Records are multiples of 24 bytes, that of a delete included: a new one often ends where an
     * old one did, whose torn_tail may follow. */
    static const uint32_t sizes[] = {
        0, MODEL_SMALL_BYTES, MODEL_SMALL_BYTES, 51, 195, 195, 483, 891, 3987, 9003, 17019};
    uint32_t size = sizes[model_below(random, sizeof sizes / sizeof *sizes)];
    struct model_random bytes = {model_draw(random)};
    for (uint32_t at = 0; at < size; at += sizeof(uint64_t)) {
        uint64_t word = model_draw(&bytes);
        memcpy(buffer + at, &word, sizeof word);
    }
    return kv_slice(buffer, size);
}

void model_begin(void)
{
    count = value_bytes = judgements = 0;
    memset(told, 0, sizeof told);
}

struct kv_slice model_key(unsigned key)
{
    static const char *const names[MODEL_KEYS] = {"a", "b", "c", "d", "e", "f",
                                                  "g", "h", "i", "j", "k", "l"};
    return kv_slice_from_string(names[key]);
}

void model_set_file(unsigned key, unsigned file)
{
    file_of[key] = file;
}

size_t model_try(unsigned key, const struct kv_slice *value, uint64_t expiry_ms)
{
    if (count == WRITES || (value && value->size > VALUE_BYTES - value_bytes))
        explore_fail("the model has no room for another write");
    struct model_write *write = &writes[count];
    *write = (struct model_write){
        .key = key, .is_there = value != NULL, .expiry_ms = expiry_ms, .first = count};
    if (value) {
        memcpy(values + value_bytes, value->data, value->size);
        write->value = kv_slice(values + value_bytes, value->size);
        value_bytes += value->size;
    }
    return count++;
}

size_t model_try_together(const struct model_part parts[], unsigned part_count)
{
    size_t first = count;
    for (unsigned i = 0; i < part_count; i++)
        writes[model_try(parts[i].key, parts[i].value, parts[i].expiry_ms)].first = first;
    return first;
}

const char *model_note_done(size_t write, uint64_t version, uint64_t now_ns)
{
    unsigned key = writes[write].key;
    writes[write].state = DONE;
    writes[write].version = version;
    writes[write].done_ns = now_ns;
    if (version <= told[key])
        return verdict("key %u: version %" PRIu64 " is given, but %" PRIu64 " was given before",
                       key, version, told[key]);
    told[key] = version;
    return NULL;
}

void model_note_failed(size_t write)
{
    writes[write].state = FAILED;
}

void model_note_durable(size_t write)
{
    writes[write].is_durable = true;
}

void model_note_durable_until(uint64_t ns)
{
    for (size_t i = 0; i < count; i++)
        writes[i].is_durable |= writes[i].state == DONE && writes[i].done_ns <= ns;
}

void model_note_all_durable(void)
{
    model_note_durable_until(UINT64_MAX);
}

/* Judging -------------------------------------------------------------------------------------- */

/* The last write of the key that is done; NULL: none. */
static const struct model_write *last_done(unsigned key)
{
    for (size_t i = count; i-- > 0;)
        if (writes[i].key == key && writes[i].state == DONE)
            return &writes[i];
    return NULL;
}

const struct kv_slice *model_value(unsigned key)
{
    const struct model_write *write = last_done(key);
    return write && write->is_there ? &write->value : NULL;
}

static bool can_be_gone(const struct model_write *write, const struct model_circumstances *now)
{
    return !write || !write->is_there || now->may_evict ||
           (write->expiry_ms != 0 && write->expiry_ms <= now->latest_ms);
}

/* Whether the key is as the write has left it; NULL: as it was before all writes. */
static bool matches(const struct model_write *write, const struct model_finding *found,
                    const struct model_circumstances *now)
{
    if (!found->is_there)
        return can_be_gone(write, now);
    return write && write->is_there && kv_slice_equal(write->value, found->value) &&
           (write->version == 0 || write->version == found->version) &&
           (write->expiry_ms == 0 || write->expiry_ms > now->now_ms);
}

const char *model_judge_read(unsigned key, const struct model_finding *found,
                             const struct model_circumstances *now)
{
    const struct model_write *write = last_done(key);
    if (matches(write, found, now))
        return NULL;
    return verdict("key %u: a read finds %s, version %" PRIu64
                   " of %zu bytes, but %s, version %" PRIu64 " of %zu bytes was written",
                   key, found->is_there ? "an entry" : "nothing", found->version, found->value.size,
                   write && write->is_there ? "an entry" : "nothing", write ? write->version : 0,
                   write ? write->value.size : 0);
}

/* Whether the write may have been done before that many judgements: what was lost later was
 * there. */
static bool may_be_done(const struct model_write *write, unsigned until)
{
    return write->state <= DONE || (write->state == LOST && write->lost_in > until);
}

/* The writes that are looked at: those before `count` that may be done by then. */
static unsigned looked_until = UINT_MAX;

/* The next write of the key behind `after` that may have happened; -1: the first. count: none. */
static size_t next_write(unsigned key, size_t after)
{
    size_t i = after + 1;
    while (i < count && (writes[i].key != key || !may_be_done(&writes[i], looked_until)))
        i++;
    return i;
}

/* Versions at which the key is as the write has left it: from *from to before *until. */
static void span_of(unsigned key, size_t write, uint64_t before, uint64_t *from, uint64_t *until)
{
    size_t next = next_write(key, write);
    while (next < count && writes[next].version == 0) /* it was tried, and may not have happened */
        next = next_write(key, next);
    *from = write == SIZE_MAX || writes[write].version == 0 ? before : writes[write].version;
    *until = next < count ? writes[next].version : UINT64_MAX;
}

/* The write that has left the key as it is found, if the file was cut behind `version`; count: none
 * has. SIZE_MAX: no write has happened. */
static size_t explain(unsigned key, const struct model_finding *found, uint64_t version,
                      const struct model_circumstances *now)
{
    uint64_t before = 0;
    for (size_t i = SIZE_MAX; i == SIZE_MAX || i < count; i = next_write(key, i)) {
        uint64_t from, until;
        span_of(key, i, before, &from, &until);
        before = from;
        if (from <= version && version < until &&
            matches(i == SIZE_MAX ? NULL : &writes[i], found, now))
            return i;
    }
    return count;
}

static bool is_explained(unsigned file, const struct model_finding found[MODEL_KEYS],
                         uint64_t version, const struct model_circumstances *now)
{
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        if (file_of[key] == file && explain(key, &found[key], version, now) == count)
            return false;
    return true;
}

static uint64_t least_version(unsigned file, bool all_done)
{
    uint64_t least = 0;
    for (size_t i = 0; i < count; i++)
        if (file_of[writes[i].key] == file && writes[i].state == DONE &&
            (all_done || writes[i].is_durable) && writes[i].version > least)
            least = writes[i].version;
    return least;
}

/* What is wrong with a file that no version explains. */
static const char *complain(unsigned file, const struct model_finding found[MODEL_KEYS],
                            uint64_t least, const struct model_circumstances *now)
{
    uint64_t highest = least;
    for (unsigned key = 0; key < MODEL_KEYS; key++) {
        const struct model_finding *this = &found[key];
        if (file_of[key] != file)
            continue;
        bool can_be = false;
        for (size_t i = SIZE_MAX; i == SIZE_MAX || i < count; i = next_write(key, i))
            can_be |= matches(i == SIZE_MAX ? NULL : &writes[i], this, now);
        if (!can_be)
            return verdict(
                "key %u: %s (version %" PRIu64 ", %zu bytes) is found, which was never so", key,
                this->is_there ? "an entry" : "nothing", this->version, this->value.size);
        if (this->is_there && this->version > highest)
            highest = this->version;
    }
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        if (file_of[key] == file && explain(key, &found[key], highest, now) == count)
            return verdict("key %u: %s (version %" PRIu64
                           ") is found, but file %u has version %" PRIu64 ", %s",
                           key, found[key].is_there ? "an entry" : "nothing", found[key].version,
                           file, highest,
                           highest == least ? "which was promised" : "which is found");
    return verdict("file %u: no version explains what is found", file);
}

/* Whether what is found of the write's key can be so with it (`done`), or without it. A later write
 * does not tell, unless a version was given to this one. */
static bool can_be_found(size_t write, const struct model_finding found[MODEL_KEYS], bool done,
                         const struct model_circumstances *now)
{
    unsigned key = writes[write].key;
    if (!done && matches(NULL, &found[key], now))
        return true;
    for (size_t i = next_write(key, SIZE_MAX); i < count; i = next_write(key, i))
        if ((done ? i >= write : i < write || (i > write && writes[write].version == 0)) &&
            matches(&writes[i], &found[key], now))
            return true;
    return false;
}

/* What is wrong with writes that were tried together, from `first` on, or NULL. */
static const char *judge_together(size_t first, const struct model_finding found[MODEL_KEYS],
                                  const struct model_circumstances *now)
{
    size_t not_done = SIZE_MAX, done = SIZE_MAX; /* for certain */
    for (size_t i = first; i < count && writes[i].first == first; i++) {
        if (!may_be_done(&writes[i], looked_until)) /* it had nothing to remove */
            continue;
        if (!can_be_found(i, found, true, now))
            not_done = i;
        else if (!can_be_found(i, found, false, now))
            done = i;
    }
    if (not_done == SIZE_MAX || done == SIZE_MAX)
        return NULL;
    return verdict("keys %u and %u were written together, and only the first is found so",
                   writes[done].key, writes[not_done].key);
}

static const char *judge_all_together(const struct model_finding found[MODEL_KEYS],
                                      const struct model_circumstances *now)
{
    const char *wrong = NULL;
    for (size_t i = 0; i + 1 < count && !wrong; i++)
        if (writes[i].first == i && writes[i + 1].first == i)
            wrong = judge_together(i, found, now);
    return wrong;
}

static void settle_key(unsigned key, const struct model_finding *found, size_t explanation)
{
    for (size_t i = next_write(key, explanation); i < count; i = next_write(key, i)) {
        writes[i].state = LOST;
        writes[i].lost_in = judgements;
    }
    if (explanation == SIZE_MAX)
        return;
    struct model_write *write = &writes[explanation];
    write->state = DONE;
    if (found->is_there)
        write->version = found->version;
    if (found->version > told[key])
        told[key] = found->version;
}

/* The highest version of the file below `below` that was written or is found, but not less than
 * `least`; `below`: there is none. */
static uint64_t version_below(unsigned file, const struct model_finding found[MODEL_KEYS],
                              uint64_t least, uint64_t below)
{
    uint64_t highest = least;
    for (size_t i = 0; i < count; i++)
        if (file_of[writes[i].key] == file && writes[i].version < below &&
            writes[i].version > highest)
            highest = writes[i].version;
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        if (file_of[key] == file && found[key].version < below && found[key].version > highest)
            highest = found[key].version;
    return highest < below ? highest : below;
}

/* The highest version, not before `least`, at which the file's keys are as they are found. (Where
 * nothing is found of a key, it need not be known which of its removals was the last: none of them
 * is taken for lost then.) False: there is none. */
static bool find_version(unsigned file, const struct model_finding found[MODEL_KEYS],
                         uint64_t least, const struct model_circumstances *now, uint64_t *version)
{
    uint64_t below = UINT64_MAX;
    while ((*version = version_below(file, found, least, below)) < below) {
        if (is_explained(file, found, *version, now))
            return true;
        below = *version;
    }
    return false;
}

static const char *judge_file(unsigned file, const struct model_finding found[MODEL_KEYS],
                              bool all_done, const struct model_circumstances *now)
{
    uint64_t least = least_version(file, all_done), version;
    if (!find_version(file, found, least, now, &version))
        return complain(file, found, least, now);
    for (unsigned key = 0; key < MODEL_KEYS; key++)
        if (file_of[key] == file)
            settle_key(key, &found[key], explain(key, &found[key], version, now));
    return NULL;
}

const char *model_judge(const struct model_finding found[MODEL_KEYS], bool all_done,
                        const struct model_circumstances *now)
{
    judgements++;
    const char *wrong = judge_all_together(found, now);
    for (unsigned file = 0; file < MODEL_FILES && !wrong; file++)
        wrong = judge_file(file, found, all_done, now);
    return wrong;
}

/* Copies --------------------------------------------------------------------------------------- */

void model_begin_moment(struct model_moment *moment)
{
    for (unsigned file = 0; file < MODEL_FILES; file++)
        moment->least[file] = least_version(file, true);
}

void model_end_moment(struct model_moment *moment)
{
    moment->count = count;
    moment->judgements = judgements;
}

static const char *judge_file_at(unsigned file, const struct model_finding found[MODEL_KEYS],
                                 const struct model_moment *moment,
                                 const struct model_circumstances *now)
{
    size_t all = count;
    uint64_t version, least = moment->least[file];
    count = moment->count;
    looked_until = moment->judgements;
    const char *wrong =
        find_version(file, found, least, now, &version) ? NULL : complain(file, found, least, now);
    count = all;
    looked_until = UINT_MAX;
    return wrong;
}

static const char *judge_moment(const struct model_finding found[MODEL_KEYS],
                                const struct model_moment *moment,
                                const struct model_circumstances *now)
{
    size_t all = count;
    count = moment->count;
    looked_until = moment->judgements;
    const char *wrong = judge_all_together(found, now);
    count = all;
    looked_until = UINT_MAX;
    for (unsigned file = 0; file < MODEL_FILES && !wrong; file++)
        wrong = judge_file_at(file, found, moment, now);
    return wrong;
}

static bool has_writes_together(void)
{
    for (size_t i = 0; i < count; i++)
        if (writes[i].first != i)
            return true;
    return false;
}

/* Each file is of one of the moments; or, where writes were tried together, anywhere between the
 * first and the last, since a file ends before what lacks its part in another one. */
static const char *judge_mixed(const struct model_finding found[MODEL_KEYS],
                               const struct model_moment moments[], unsigned moment_count,
                               const struct model_circumstances *now)
{
    bool is_free = has_writes_together();
    for (unsigned file = 0; file < MODEL_FILES; file++) {
        const char *wrong = "no moment";
        for (unsigned i = 0; i < moment_count && wrong; i++) {
            struct model_moment moment = moments[i]; /* without what was lost before */
            if (is_free)
                moment.least[file] = moments[0].least[file];
            wrong = judge_file_at(file, found, &moment, now);
        }
        if (wrong)
            return wrong;
    }
    return NULL;
}

const char *model_judge_copy(const struct model_finding found[MODEL_KEYS],
                             const struct model_moment moments[], unsigned moment_count,
                             bool is_mixed, const struct model_circumstances *now)
{
    if (is_mixed)
        return judge_mixed(found, moments, moment_count, now);
    const char *wrong = "there is no moment";
    for (unsigned i = 0; i < moment_count && wrong; i++)
        wrong = judge_moment(found, &moments[i], now);
    return wrong;
}

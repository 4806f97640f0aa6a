/* Ranges of the library, against a real server that keeps its keys in order, and one that does
 * not. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/numbers/random.h"
#include "mqkv/clientk.h"
#include "tests/support/client_calls.h"
#include "tests/support/served_client.h"
#include "tests/support/test_suite.h"

#define TEXT(text) kv_slice_from_string(text)

static void start_ordered(void)
{
    live_server_start(&server, "--ordered", NULL);
}

/* A model ---------------------------------------------------------------------------------- */

#define MODEL_KEYS     800u
#define SHARED_BYTES   60000u /* of the beginning that some keys share */
#define MODEL_KEY_ROOM (SHARED_BYTES + 8)

struct ranged_key {
    struct kv_slice key;
    bool there;
};
static struct ranged_key model[MODEL_KEYS];
static size_t model_count;

static int compare_keys(struct kv_slice a, struct kv_slice b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter > 0 ? memcmp(a.data, b.data, shorter) : 0;
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int compare_model_keys(const void *left, const void *right)
{
    const struct ranged_key *a = left, *b = right;
    return compare_keys(a->key, b->key);
}

/* Short keys of few different bytes, 0 and 255 among them; some behind a long beginning. */
static void add_model_key(struct random_state *random)
{
    static const char some[] = {0, 1, 'a', 'b', (char)255};
    static char bytes[MODEL_KEY_ROOM];
    size_t size = random_below(random, 24) == 0 ? SHARED_BYTES : 0;
    memset(bytes, 'p', size);
    for (size_t more = random_below(random, 7); more > 0 || size == 0; more -= more > 0)
        bytes[size++] = some[random_below(random, sizeof some)];
    for (size_t i = 0; i < model_count; i++)
        if (kv_slice_equal(model[i].key, kv_slice(bytes, size)))
            return;
    char *copy = malloc(size);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, size);
    model[model_count++] = (struct ranged_key){kv_slice(copy, size), true};
}

static void make_model(struct random_state *random)
{
    random_seed(random, 28);
    for (unsigned i = 0; i < MODEL_KEYS; i++)
        add_model_key(random);
    qsort(model, model_count, sizeof model[0], compare_model_keys);
    for (size_t i = 0; i < model_count; i++)
        assert_status(clientk_put(client, model[i].key, TEXT("v"), NULL, NULL), KV_OK);
}

static bool is_within(const struct clientk_range *range, struct kv_slice key)
{
    int from = compare_keys(key, range->from);
    return (from > 0 || (from == 0 && !range->behind_from)) &&
           (range->to.size == 0 || compare_keys(key, range->to) < 0) &&
           kv_slice_has_prefix(key, range->prefix);
}

/* What the cursor gives, and the count, are what the model has. */
static void check_range_of_model(struct clientk_range range)
{
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    uint64_t count, expected = 0;
    assert_status(clientk_cursor_open(client, &range, &cursor), KV_OK);
    for (size_t i = 0; i < model_count; i++) {
        const struct ranged_key *next = &model[range.reverse ? model_count - 1 - i : i];
        if (!next->there || !is_within(&range, next->key))
            continue;
        if (range.limit > 0 && expected == range.limit)
            break;
        expected++;
        assert_status(clientk_cursor_next(cursor, &entry), KV_OK);
        ck_assert_msg(kv_slice_equal(entry.key, next->key), "key %zu of the model is missing", i);
        ck_assert_uint_eq(entry.value.size, range.keys_only ? 0 : 1);
    }
    assert_status(clientk_cursor_next(cursor, &entry), KV_NOT_FOUND);
    assert_status(clientk_cursor_next(cursor, &entry), KV_NOT_FOUND);
    clientk_cursor_close(cursor);
    assert_status(clientk_count_range(client, &range, &count), KV_OK);
    if (range.limit == 0)
        ck_assert_uint_eq(count, expected);
}

static struct kv_slice any_bound(struct random_state *random)
{
    struct kv_slice key = model[random_below(random, model_count)].key;
    if (random_below(random, 3) == 0)
        return kv_slice(NULL, 0);
    key.size -= random_below(random, 2) * random_below(random, key.size);
    return key;
}

static struct clientk_range any_range(struct random_state *random)
{
    return (struct clientk_range){
        .from = any_bound(random),
        .to = any_bound(random),
        .prefix = random_below(random, 2) ? any_bound(random) : kv_slice(NULL, 0),
        .behind_from = random_below(random, 2),
        .reverse = random_below(random, 2),
        .keys_only = random_below(random, 2),
        .page = (uint32_t)random_below(random, 30),
        .limit = random_below(random, 3) == 0 ? 1 + random_below(random, 20) : 0};
}

START_TEST(ranges_are_those_of_a_model)
{
    struct random_state random;
    make_model(&random);
    check_range_of_model((struct clientk_range){.reverse = false});
    check_range_of_model((struct clientk_range){.reverse = true});
    check_range_of_model((struct clientk_range){.atomic = true, .keys_only = true});
    for (unsigned i = 0; i < 40; i++)
        check_range_of_model(any_range(&random));
    for (unsigned i = 0; i < 10; i++) {
        struct clientk_range range = any_range(&random);
        range.limit = 0;
        uint64_t deleted, expected = 0;
        for (size_t at = 0; at < model_count; at++)
            if (model[at].there && is_within(&range, model[at].key)) {
                model[at].there = false;
                expected++;
            }
        assert_status(clientk_delete_range(client, &range, &deleted), KV_OK);
        ck_assert_uint_eq(deleted, expected);
        check_range_of_model((struct clientk_range){.reverse = i & 1});
        for (size_t at = 0; at < model_count; at++)
            if (!model[at].there && random_below(&random, 2)) {
                assert_status(clientk_put(client, model[at].key, TEXT("v"), NULL, NULL), KV_OK);
                model[at].there = true;
            }
    }
}
END_TEST

/* Others write, and the server ends ----------------------------------------------------------- */

static atomic_bool enough;

static void *write_beside(void *argument)
{
    struct clientk *own = must_connect(server.queue);
    struct random_state random;
    char key[32];
    (void)argument;
    random_seed(&random, 17);
    while (!atomic_load(&enough)) {
        unsigned number = (unsigned)random_below(&random, 3000);
        snprintf(key, sizeof key, "k%05u%s", number, random_below(&random, 2) ? "x" : "");
        bool stays = !strchr(key, 'x') && number % 3 == 0;
        struct clientk_write_options options = {.expiry_ms =
                                                    stays || random_below(&random, 4) > 0 ? 0 : 1};
        if (stays || random_below(&random, 3) > 0)
            clientk_put(own, TEXT(key), TEXT("other"), &options, NULL);
        else
            clientk_delete(own, TEXT(key), NULL, NULL);
    }
    clientk_close(own);
    return NULL;
}

/* Each key whose number is divisible by three stays there: it comes once, whatever others do. */
static void walk_beside_writers(bool reverse, int signal_number)
{
    struct clientk_range range = {.prefix = TEXT("k"), .reverse = reverse, .page = 64};
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    enum kv_status status;
    unsigned kept = 0, given = 0;
    char expected[32];
    assert_status(clientk_cursor_open(client, &range, &cursor), KV_OK);
    while ((status = clientk_cursor_next(cursor, &entry)) == KV_OK) {
        unsigned number = reverse ? 2997 - 3 * kept : 3 * kept;
        snprintf(expected, sizeof expected, "k%05u", number);
        kept += kv_slice_equal(entry.key, TEXT(expected));
        if (++given == 900 && signal_number) {
            live_server_signal(&server, signal_number);
            live_server_restart(&server, "--ordered", NULL);
        }
    }
    ck_assert_msg(status == KV_NOT_FOUND, "%s", clientk_last_error());
    ck_assert_uint_eq(kept, 1000);
    clientk_cursor_close(cursor);
}

START_TEST(what_stays_comes_once_while_others_write_and_the_server_ends)
{
    pthread_t writer;
    char key[32];
    for (unsigned number = 0; number < 3000; number++) {
        snprintf(key, sizeof key, "k%05u", number);
        must_put_text(client, key, "value");
    }
    atomic_store(&enough, false);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_beside, NULL), 0);
    for (unsigned i = 0; i < 4; i++)
        walk_beside_writers(i & 1, i == 1 ? SIGKILL : i == 2 ? SIGTERM : 0);
    atomic_store(&enough, true);
    pthread_join(writer, NULL);
}
END_TEST

START_TEST(arguments_are_checked)
{
    static const char long_key[65536];
    struct clientk_cursor *cursor;
    struct clientk_range range = {.limit = 0};
    uint64_t count;
    assert_status(clientk_cursor_open(client, NULL, &cursor), KV_USAGE);
    assert_status(clientk_cursor_open(NULL, &range, &cursor), KV_USAGE);
    assert_status(clientk_cursor_open(client, &range, NULL), KV_USAGE);
    assert_status(clientk_cursor_next(NULL, NULL), KV_USAGE);
    assert_status(clientk_count_range(client, &range, NULL), KV_USAGE);
    range.page = 4097;
    assert_status(clientk_cursor_open(client, &range, &cursor), KV_USAGE);
    range = (struct clientk_range){.atomic = true, .limit = 1};
    assert_status(clientk_cursor_open(client, &range, &cursor), KV_USAGE);
    range = (struct clientk_range){.prefix = kv_slice(long_key, sizeof long_key)};
    assert_status(clientk_delete_range(client, &range, NULL), KV_BAD_KEY);
    range = (struct clientk_range){.reserved = {1}};
    assert_status(clientk_count_range(client, &range, &count), KV_UNSUPPORTED);
    clientk_cursor_close(NULL);
}
END_TEST

START_TEST(a_server_without_order_says_so)
{
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    struct clientk_range range = {.limit = 0};
    uint64_t count;
    assert_status(clientk_cursor_open(client, &range, &cursor), KV_OK);
    assert_status(clientk_cursor_next(cursor, &entry), KV_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(clientk_last_error(), "--ordered"));
    clientk_cursor_close(cursor);
    assert_status(clientk_count_range(client, &range, &count), KV_UNSUPPORTED);
    assert_status(clientk_delete_range(client, &range, NULL), KV_UNSUPPORTED);
}
END_TEST

/* Pages of large entries ------------------------------------------------------------------- */

#define PAGED_ENTRIES     2000u
#define PAGED_VALUE_BYTES 1000u
#define PAGED_MESSAGES    60u /* 4 KiB a page would make 500 */

static uint64_t messages_sent(void)
{
    struct clientk_info info;
    clientk_info(client, &info);
    return info.messages;
}

static bool check_paged_entry(void *context, const struct clientk_entry *entry)
{
    ck_assert_uint_eq(entry->value.size, PAGED_VALUE_BYTES);
    ++*(unsigned *)context;
    return true;
}

/* A message holds four of these entries: pages grow into the segment. */
START_TEST(pages_of_large_entries_take_few_messages)
{
    const struct clientk_options options = {.queue = server.queue, .direct = CLIENTK_DIRECT_OFF};
    static char value[PAGED_VALUE_BYTES];
    char key[16];
    const struct clientk_range range = {.prefix = TEXT("paged:")};
    unsigned visited = 0, ranged = 0;
    struct clientk_cursor *cursor;
    struct clientk_entry entry;
    clientk_close(client);
    assert_status(clientk_open(&options, &client, NULL), KV_OK);
    for (unsigned i = 0; i < PAGED_ENTRIES; i++) {
        snprintf(key, sizeof key, "paged:%04u", i);
        assert_status(clientk_put(client, TEXT(key), kv_slice(value, sizeof value), NULL, NULL),
                      KV_OK);
    }
    uint64_t before = messages_sent();
    assert_status(clientk_scan(client, TEXT("paged:"), false, NULL, 0, check_paged_entry, &visited),
                  KV_OK);
    ck_assert_uint_eq(visited, PAGED_ENTRIES);
    ck_assert_uint_lt(messages_sent() - before, PAGED_MESSAGES);

    before = messages_sent();
    assert_status(clientk_cursor_open(client, &range, &cursor), KV_OK);
    while (clientk_cursor_next(cursor, &entry) == KV_OK) {
        snprintf(key, sizeof key, "paged:%04u", ranged);
        ck_assert(kv_slice_equal(entry.key, TEXT(key)));
        check_paged_entry(&ranged, &entry);
    }
    clientk_cursor_close(cursor);
    ck_assert_uint_eq(ranged, PAGED_ENTRIES);
    ck_assert_uint_lt(messages_sent() - before, PAGED_MESSAGES);
}
END_TEST

static void start_and_connect(void)
{
    start_ordered();
    client = must_connect(server.queue);
}

static void close_and_remove(void)
{
    clientk_close(client);
    live_server_remove(&server);
}

static void start_ordered_queue(void)
{
    live_server_start(&server, "--ordered", "--replies=queue");
}

TEST_SUITE(clientk_range)
{
    TCase *ranges = tcase_create("ranges");
    served_case_add_client_of(ranges, start_ordered);
    tcase_set_timeout(ranges, 300);
    tcase_add_test(ranges, ranges_are_those_of_a_model);
    tcase_add_test(ranges, arguments_are_checked);
    tcase_add_test(ranges, pages_of_large_entries_take_few_messages);
    suite_add_tcase(suite, ranges);
    TCase *ends = tcase_create("ends");
    tcase_add_checked_fixture(ends, start_and_connect, close_and_remove);
    tcase_set_timeout(ends, 300);
    tcase_add_test(ends, what_stays_comes_once_while_others_write_and_the_server_ends);
    suite_add_tcase(suite, ends);
    TCase *queues = tcase_create("queues");
    served_case_add_client_of(queues, start_ordered_queue);
    tcase_set_timeout(queues, 300);
    tcase_add_test(queues, ranges_are_those_of_a_model);
    suite_add_tcase(suite, queues);
    TCase *without = tcase_create("without_order");
    served_case_add_client(without);
    tcase_add_test(without, a_server_without_order_says_so);
    suite_add_tcase(suite, without);
}

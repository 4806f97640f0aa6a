#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clientk/program/cli/json_reader.h"
#include "tools/ops/stats.h"
#include "common/numbers/random.h"
#include "tests/support/test_suite.h"

static struct json_value *parse(const char *text)
{
    return json_parse(text, strlen(text));
}

START_TEST(documents_become_trees)
{
    struct json_value *document =
        parse(" {\"a\": 1.5, \"b\": [true, null, \"x\\\"y\\n\"], \"c\": {\"d\": -2}} ");
    ck_assert_ptr_nonnull(document);
    ck_assert_double_eq(json_member(document, "a")->number, 1.5);
    const struct json_value *list = json_member(document, "b");
    ck_assert_int_eq(list->kind, JSON_ARRAY);
    ck_assert_int_eq(list->first->kind, JSON_BOOL);
    ck_assert_int_eq(list->first->next->kind, JSON_NULL);
    ck_assert_str_eq(list->first->next->next->text, "x\"y\n");
    ck_assert_double_eq(json_member(json_member(document, "c"), "d")->number, -2);
    ck_assert_ptr_null(json_member(document, "e"));
    ck_assert_ptr_null(json_member(list, "a"));
    json_free(document);
}
END_TEST

START_TEST(what_is_no_json_is_refused)
{
    static const char *const bad[] = {"",     "{",   "[1,",  "{\"a\"}",  "{\"a\":}",
                                      "\"x",  "1 2", "[1]]", "nope",     "{a:1}",
                                      "[1,]", "1x",  "\"\\", "{\"a\":1", "[[[[[["};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!parse(bad[i]), "took: %s", bad[i]);
}
END_TEST

/* Names go to a terminal as they are. */
START_TEST(names_that_a_terminal_would_obey_are_refused)
{
    static const char *const bad[] = {"{\"\033[2J\": 1}", "{\"a\": {\"\\n\": 1}}",
                                      "{\"\302\233c\": 1}", "{\"\377\": 1}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!parse(bad[i]), "took number %zu", i);
}
END_TEST

START_TEST(depth_is_bounded)
{
    char text[200001];
    memset(text, '[', 100000);
    memset(text + 100000, ']', 100000);
    ck_assert_ptr_null(json_parse(text, 200000));
}
END_TEST

/* The sanitizers watch. */
START_TEST(any_bytes_are_survived)
{
    static const char alphabet[] = "{}[],:\"\\u1.-tfn ";
    struct random_state random;
    random_seed(&random, 11);
    for (int round = 0; round < 20000; round++) {
        char text[40];
        size_t size = (size_t)random_below(&random, sizeof text);
        for (size_t i = 0; i < size; i++)
            text[i] = alphabet[random_below(&random, sizeof alphabet)];
        json_free(json_parse(text, size));
    }
}
END_TEST

START_TEST(statistics_become_lists_and_tables)
{
    struct json_value *document =
        parse("{\"server\":{\"pid\":7,\"used_bytes\":2048,\"name\":\"a\\u001b\"},"
              "\"each\":[{\"n\":1,\"k\":20},{\"n\":2}]}");
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    stats_print(stream, document);
    fclose(stream);
    ck_assert_str_eq(text, "server\n"
                           "  pid         7\n"
                           "  used_bytes  2048 (2.0 KiB)\n"
                           "  name        a\\u001b\n"
                           "\n"
                           "each\n"
                           "    n   k\n"
                           "    1  20\n"
                           "    2   -\n");
    free(text);
    json_free(document);
}
END_TEST

/* As of the data files, which have many figures. */
START_TEST(a_table_has_all_its_columns)
{
    char source[1000] = "[{\"n\":1", *text = NULL;
    size_t size = 0;
    for (int i = 0; i < 40; i++)
        snprintf(source + strlen(source), sizeof source - strlen(source), ",\"figure%d\":%d", i, i);
    strcat(source, "},{\"n\":2}]");
    struct json_value *document = parse(source);
    FILE *stream = open_memstream(&text, &size);
    stats_print(stream, document);
    fclose(stream);
    ck_assert_ptr_nonnull(strstr(text, "  figure38  figure39\n"));
    free(text);
    json_free(document);
}
END_TEST

TEST_SUITE(program_json)
{
    TCase *reader = tcase_create("reader");
    tcase_add_test(reader, documents_become_trees);
    tcase_add_test(reader, what_is_no_json_is_refused);
    tcase_add_test(reader, names_that_a_terminal_would_obey_are_refused);
    tcase_add_test(reader, depth_is_bounded);
    tcase_add_test(reader, any_bytes_are_survived);
    tcase_add_test(reader, statistics_become_lists_and_tables);
    tcase_add_test(reader, a_table_has_all_its_columns);
    suite_add_tcase(suite, reader);
}

/* listing: arrays of objects as tables, whatever a server puts into them. */
#include "tools/ops/listing.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/printed_output.h"
#include "tests/support/test_suite.h"

#define ROWS 4096

static bool print_cell(const char *text)
{
    struct json_value *document = json_parse(text, strlen(text));
    ck_assert_ptr_nonnull(document);
    bool was_printed = listing_print_cell(&output, document, "value");
    json_free(document);
    fflush(output.stream);
    return was_printed;
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

START_TEST(a_cell_is_printed_if_it_is_a_text)
{
    static const char *const none[] = {
        "[{\"value\":[]}]", "[{\"value\":{}}]", "[{\"name\":1}]", "[[1]]", "[]", "7"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        ck_assert_msg(!print_cell(none[i]), "printed: %s", none[i]);
    ck_assert_uint_eq(printed_bytes, 0);
    ck_assert(print_cell("[{\"value\":\"64k\"}]"));
    ck_assert_str_eq(printed, "64k\n");
}
END_TEST

/* As many as a server has sessions at most: the widths are worked out once, not for each cell. */
START_TEST(a_table_of_many_rows_takes_no_time)
{
    static const struct listing_column columns[] = {{"session", "SESSION", true},
                                                    {"uid", "UID", true},
                                                    {"pid", "PID", true},
                                                    {"age", "AGE", true},
                                                    {"program", "PROGRAM", false}};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ck_assert_ptr_nonnull(out);
    for (int i = 0; i < ROWS; i++)
        fprintf(out, "%c{\"session\":%d,\"uid\":0,\"pid\":%d,\"age\":\"1s\",\"program\":\"x\"}",
                i == 0 ? '[' : ',', i + 1, i);
    fputc(']', out);
    fclose(out);
    double begin = cpu_seconds();
    ck_assert_int_eq(listing_print_text(&output, kv_slice(text, size), columns,
                                        sizeof columns / sizeof columns[0]),
                     KV_OK);
    fflush(output.stream);
    ck_assert_double_lt(cpu_seconds() - begin, 2.0);
    ck_assert_ptr_nonnull(strstr(printed, "SESSION  UID   PID  AGE  PROGRAM\n"));
    ck_assert_ptr_nonnull(strstr(printed, "\n   4096    0  4095   1s  x\n"));
    free(text);
}
END_TEST

TEST_SUITE(program_listing)
{
    TCase *tables = tcase_create("tables");
    printed_output_case_add(tables);
    tcase_add_test(tables, a_cell_is_printed_if_it_is_a_text);
    tcase_add_test(tables, a_table_of_many_rows_takes_no_time);
    suite_add_tcase(suite, tables);
}

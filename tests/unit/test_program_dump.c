#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/transfer/dump_format.h"
#include "tools/transfer/refused_lines.h"
#include "clientk/program/cli/line.h"
#include "clientk/program/cli/output.h"
#include "tests/support/test_suite.h"

#define BYTES(text) kv_slice(text, sizeof(text) - 1)

/* Prints the line of an entry. */
static void print_entry(FILE *stream, struct kv_slice key, struct kv_slice value,
                        uint64_t expiry_ms)
{
    char *text = calloc(1, DUMP_ENTRY_MAX_BYTES(key.size, value.size));
    fwrite(text, 1, dump_put_entry(text, key, value, expiry_ms), stream);
    free(text);
}

/* A dump of two entries; free it. */
static char *make_dump(void)
{
    char *text = NULL, *body = NULL;
    size_t size = 0, body_size = 0;
    FILE *entries = open_memstream(&body, &body_size);
    print_entry(entries, BYTES("a b"), BYTES("\0\xff\n\""), 0);
    print_entry(entries, BYTES("c"), BYTES(""), 1795168333000);
    fclose(entries);
    size_t first = strcspn(body, "\n");
    uint64_t checksum = dump_checksum(0, body, first);
    checksum = dump_checksum(checksum, body + first + 1, body_size - first - 2);
    FILE *stream = open_memstream(&text, &size);
    dump_print_header(stream, "/serverk");
    fwrite(body, 1, body_size, stream);
    dump_print_trailer(stream, 2, checksum);
    fclose(stream);
    free(body);
    return text;
}

/* The verdict on a whole text. */
static const char *judge(const char *text, char reason[160])
{
    struct dump_check check = {0};
    while (*text) {
        size_t size = strcspn(text, "\n");
        dump_check_line(&check, text, size);
        text += size + (text[size] == '\n');
    }
    return dump_check_verdict(&check, reason);
}

START_TEST(the_checksum_depends_on_every_line_and_their_order)
{
    uint64_t a = dump_checksum(0, "a", 1), b = dump_checksum(0, "b", 1);
    ck_assert_uint_ne(dump_checksum(a, "b", 1), dump_checksum(b, "a", 1));
    ck_assert_uint_ne(dump_checksum(a, "b", 1), dump_checksum(0, "ab", 2));
    /* XXH3 of nothing with seed 0, as libxxhash's xxhsum -H3 prints it. */
    ck_assert_uint_eq(dump_checksum(0, "", 0), UINT64_C(0x2d06800538d394c2));
}
END_TEST

START_TEST(an_entry_is_a_line_of_a_batch)
{
    char *text = NULL;
    size_t size = 0;
    struct line line = {0};
    struct line_error error;
    FILE *stream = open_memstream(&text, &size);
    print_entry(stream, BYTES("k\"\n"), BYTES("\\ \0"), 17);
    fclose(stream);
    ck_assert_int_eq(text[size - 1], '\n');
    ck_assert_ptr_eq(memchr(text, '\n', size), text + size - 1);
    ck_assert(line_parse(&line, text, size - 1, &error));
    ck_assert_uint_eq(line.count, 5);
    ck_assert(kv_slice_equal(word_slice(&line.words[1]), BYTES("k\"\n")));
    ck_assert(kv_slice_equal(word_slice(&line.words[2]), BYTES("\\ \0")));
    ck_assert_str_eq(line.words[3].data, "--expires-at");
    ck_assert_str_eq(line.words[4].data, "17");
    line_free(&line);
    free(text);
}
END_TEST

START_TEST(a_sound_dump_passes)
{
    char reason[160], *text = make_dump();
    ck_assert_ptr_null(judge(text, reason));
    free(text);
}
END_TEST

START_TEST(every_cut_is_seen)
{
    char reason[160], *text = make_dump();
    size_t header_size = strcspn(text, "\n"), size = strlen(text);
    for (size_t cut = header_size + 1; cut < size - 1; cut++) {
        char *part = strndup(text, cut);
        ck_assert_msg(judge(part, reason), "cut at %zu passed", cut);
        free(part);
    }
    free(text);
}
END_TEST

START_TEST(every_changed_byte_of_an_entry_is_seen)
{
    char reason[160], *text = make_dump();
    size_t start = strcspn(text, "\n") + 1, end = (size_t)(strstr(text, "# mqkv dump end") - text);
    for (size_t i = start; i < end; i++) {
        text[i] ^= 1;
        ck_assert_msg(judge(text, reason), "change at %zu passed", i);
        text[i] ^= 1;
    }
    free(text);
}
END_TEST

START_TEST(other_batches_are_not_judged)
{
    char reason[160];
    ck_assert_ptr_null(judge("PUT a b\n# comment\n", reason));
    ck_assert_ptr_nonnull(judge("# mqkv dump 9, queue /x\n", reason));
}
END_TEST

/* Refuses a line while those up to `last_sent` are on their way. */
static bool refuse(struct refused_lines *refused, uint64_t line, uint64_t last_sent)
{
    const struct refused_line now = {.line = line, .last_sent = last_sent, .status = KV_FULL};
    return refused_lines_add(refused, &now);
}

START_TEST(a_refused_line_fails_alone_if_one_sent_later_is_taken)
{
    struct refused_lines refused = {0};
    refuse(&refused, 5, 20);
    refuse(&refused, 3, 30);
    ck_assert_uint_eq(refused_lines_pass(&refused, 19), 0);
    ck_assert_uint_eq(refused_lines_pass(&refused, 20), 0);
    ck_assert_uint_eq(refused_lines_pass(&refused, 21), 1);
    refused_lines_drop(&refused, 1);
    ck_assert_uint_eq(refused.count, 1);
    ck_assert_uint_eq(refused.lines[0].line, 3);
    ck_assert_uint_eq(refused_lines_pass(&refused, 30), 0);
    ck_assert_uint_eq(refused_lines_pass(&refused, 31), 1);
}
END_TEST

START_TEST(so_many_refused_lines_in_a_row_are_all)
{
    struct refused_lines refused = {0};
    for (uint64_t line = 1; line <= REFUSED_IN_A_ROW; line++)
        ck_assert(!refuse(&refused, line, 500));
    ck_assert_uint_eq(refused_lines_pass(&refused, 400), 0);
    for (uint64_t line = 1; line <= REFUSED_IN_A_ROW; line++)
        ck_assert(!refuse(&refused, 400 + line, 600));
    ck_assert(refuse(&refused, 501, 600));
    ck_assert_uint_eq(refused.count, 2 * REFUSED_IN_A_ROW + 1);
}
END_TEST

TEST_SUITE(program_dump)
{
    TCase *format = tcase_create("format");
    tcase_add_test(format, the_checksum_depends_on_every_line_and_their_order);
    tcase_add_test(format, an_entry_is_a_line_of_a_batch);
    tcase_add_test(format, a_sound_dump_passes);
    tcase_add_test(format, every_cut_is_seen);
    tcase_add_test(format, every_changed_byte_of_an_entry_is_seen);
    tcase_add_test(format, other_batches_are_not_judged);
    suite_add_tcase(suite, format);
    TCase *refusals = tcase_create("refusals");
    tcase_add_test(refusals, a_refused_line_fails_alone_if_one_sent_later_is_taken);
    tcase_add_test(refusals, so_many_refused_lines_in_a_row_are_all);
    suite_add_tcase(suite, refusals);
}

/* line_source: lines as they are; of a line that there is no memory for, nothing. */
#include "clientk/program/commands/line_source.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/skip.h"
#include "tests/support/test_suite.h"

#define LONG_LINE_BYTES (16u << 20)
#define MORE_BYTES      (4u << 20) /* than the process has */

static char path[32];

static void make_file(void)
{
    strcpy(path, "/tmp/mqkv-lines-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void remove_file(void)
{
    unlink(path);
}

static struct line_source *open_lines(const char *first, size_t more_bytes)
{
    struct line_source *source = NULL;
    struct kv_error error = {0};
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(first, file);
    for (size_t i = 0; i < more_bytes; i++)
        fputc('A', file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(line_source_open(path, &source, &error), KV_OK);
    return source;
}

START_TEST(lines_come_in_their_order_also_the_last_without_a_newline)
{
    struct line_chunk chunk = {0};
    struct line_source *source = open_lines("one\n\nthree", 0);
    ck_assert(line_source_take(source, LINE_SOURCE_CHUNK, &chunk));
    ck_assert_uint_eq(chunk.count, 2);
    ck_assert_uint_eq(chunk.lines[0].size, 3);
    ck_assert_uint_eq(chunk.lines[1].size, 0);
    ck_assert(line_source_take(source, LINE_SOURCE_CHUNK, &chunk));
    ck_assert_uint_eq(chunk.first_number, 3);
    ck_assert_mem_eq(chunk.bytes, "three", 5);
    ck_assert(!line_source_take(source, LINE_SOURCE_CHUNK, &chunk));
    ck_assert_ptr_null(line_source_error(source));
    line_source_close(source);
    line_chunk_free(&chunk);
}
END_TEST

/* Takes the next chunk, whose last line is to be that. Returns its number. */
static uint64_t take_last(struct line_source *source, struct line_chunk *chunk, const char *last)
{
    ck_assert(line_source_take(source, LINE_SOURCE_CHUNK, chunk));
    const struct source_line *line = &chunk->lines[chunk->count - 1];
    ck_assert_uint_eq(line->size, strlen(last));
    ck_assert_mem_eq(chunk->bytes + line->offset, last, line->size);
    return chunk->first_number + chunk->count - 1;
}

#define BLOCK "begin --if-absent a\nput commits 1\n\n Commit "

START_TEST(a_block_is_one_line_where_it_is_asked_for)
{
    const char *text = "one\n" BLOCK "\nbeginning\nBEGIN\nput k v\nabort\nlast\nbegin\nput k";
    struct line_chunk chunk = {0};
    struct line_source *source = open_lines(text, 0);
    line_source_join_blocks(source);
    ck_assert_uint_eq(take_last(source, &chunk, BLOCK), 2);
    ck_assert_uint_eq(take_last(source, &chunk, "BEGIN\nput k v\nabort"), 7);
    ck_assert_uint_eq(chunk.count, 2);
    ck_assert_uint_eq(take_last(source, &chunk, "last"), 10);
    ck_assert_uint_eq(take_last(source, &chunk, "begin\nput k"), 11); /* it does not end */
    ck_assert(!line_source_take(source, LINE_SOURCE_CHUNK, &chunk));
    line_source_close(source);
    source = open_lines(text, 0);
    ck_assert_uint_eq(take_last(source, &chunk, "begin"), 11); /* a dump has none */
    line_source_close(source);
    line_chunk_free(&chunk);
}
END_TEST

/* Half of `put k AAAA...` would be a command, too. */
START_TEST(without_memory_for_a_line_there_is_no_part_of_it)
{
#ifdef MQKV_SANITIZER
    SKIP_TEST("a limit of memory: the sanitizers need more");
#endif
    unsigned long pages = 0;
    struct rlimit before;
    struct line_chunk chunk = {0};
    struct line_source *source = open_lines("put k ", LONG_LINE_BYTES);
    FILE *sizes = fopen("/proc/self/statm", "re");
    ck_assert_ptr_nonnull(sizes);
    ck_assert_int_eq(fscanf(sizes, "%lu", &pages), 1);
    fclose(sizes);
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    struct rlimit limit = {pages * (rlim_t)sysconf(_SC_PAGESIZE) + MORE_BYTES, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    bool taken = line_source_take(source, LINE_SOURCE_CHUNK, &chunk);
    bool taken_again = line_source_take(source, LINE_SOURCE_CHUNK, &chunk);
    setrlimit(RLIMIT_AS, &before);
    ck_assert(!taken && !taken_again);
    ck_assert_ptr_nonnull(line_source_error(source));
    line_source_close(source);
    line_chunk_free(&chunk);
}
END_TEST

TEST_SUITE(program_line_source)
{
    TCase *lines = tcase_create("lines");
    tcase_add_checked_fixture(lines, make_file, remove_file);
    tcase_add_test(lines, lines_come_in_their_order_also_the_last_without_a_newline);
    tcase_add_test(lines, a_block_is_one_line_where_it_is_asked_for);
    tcase_add_test(lines, without_memory_for_a_line_there_is_no_part_of_it);
    suite_add_tcase(suite, lines);
}

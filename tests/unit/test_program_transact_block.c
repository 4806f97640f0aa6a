/* transact_block: the command that the lines of a transaction are, and what is wrong with some. */
#include "clientk/program/commands/transact_block.h"

#include <check.h>
#include <string.h>

#include "tests/support/test_suite.h"

static struct line line;
static struct kv_error error;

static void free_line(void)
{
    line_free(&line);
}

static enum kv_status parse(const char *text)
{
    return transact_block_parse(&line, text, strlen(text), &error);
}

/* The words, joined by '|'; one that was quoted in quotes. */
static const char *words_of_line(void)
{
    static char text[512];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < line.count; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", i > 0 ? "|" : "",
                                 line.words[i].literal ? "'" : "", line.words[i].data,
                                 line.words[i].literal ? "'" : "");
    return text;
}

START_TEST(lines_become_one_command)
{
    const struct {
        const char *text, *words;
    } blocks[] = {
        {"begin\ncommit", "transact"},
        {"begin\nput a 1\ncommit", "transact|--|put|a|1"},
        {"begin --if-absent k # why\r\n\n  put a \"x y\"\n# no\nadd n -5 --min 0\nCOMMIT\n",
         "transact|--if-absent|k|--|put|a|'x y'|--|add|n|-5|--min|0"},
        {"begin\nget a\nelse\nget b\nget c\ncommit", "transact|--|get|a|--else|get|b|--|get|c"},
        {"begin\nelse\nget b\ncommit", "transact|--else|get|b"},
        {"begin\nput k -- --min -x\ncommit", "transact|--|put|k|'--min'|'-x'"},
        {"begin\nput k \"--\" \"\"\ncommit", "transact|--|put|k|'--'|''"},
        {"begin\nput a 1\nabort", ""},
        {"begin\nelse\nabort", ""},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        ck_assert_msg(parse(blocks[i].text) == KV_OK, "%s: %s", blocks[i].text, error.text);
        ck_assert_str_eq(words_of_line(), blocks[i].words);
    }
}
END_TEST

START_TEST(what_is_wrong_is_named_by_its_line)
{
    const struct {
        const char *text, *sentence;
    } blocks[] = {
        {"begin", "does not end"},
        {"begin\nput a 1\n", "does not end"},
        {"begin\nput a 1\nbegin\ncommit", "line 3 of the transaction: another begin"},
        {"begin\nput \"a\ncommit", "line 2 of the transaction: column 5"},
        {"begin\nelse\nget a\nelse\ncommit", "line 4 of the transaction: else stands twice"},
        {"begin\nget a\nelse\ncommit", "no steps stand behind else"},
        {"begin\nput a 1\ncommit now", "stand alone"},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        ck_assert_int_eq(parse(blocks[i].text), KV_USAGE);
        ck_assert_msg(strstr(error.text, blocks[i].sentence) != NULL, "%s", error.text);
    }
}
END_TEST

START_TEST(the_first_word_tells_where_a_block_is)
{
    const char *const begins[] = {"begin", " \tBegin --sync always", "begin\r", "begin\nput"};
    const char *const others[] = {"", "begins", "beg", "# begin", "\"begin\"", "put begin"};
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        ck_assert(transact_block_begins(begins[i], strlen(begins[i])));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert(!transact_block_begins(others[i], strlen(others[i])));
    ck_assert(transact_block_ends("commit", 6) && transact_block_ends("  ABORT ", 8));
    ck_assert(!transact_block_ends("commits", 7) && !transact_block_ends("else", 4));
}
END_TEST

TEST_SUITE(program_transact_block)
{
    TCase *tests = tcase_create("block");
    tcase_add_checked_fixture(tests, NULL, free_line);
    tcase_add_test(tests, lines_become_one_command);
    tcase_add_test(tests, what_is_wrong_is_named_by_its_line);
    tcase_add_test(tests, the_first_word_tells_where_a_block_is);
    suite_add_tcase(suite, tests);
}

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "bridges/kresp/commands/known_scripts.h"
#include "tests/support/test_suite.h"

static enum known_script load(const char *text)
{
    char hex[SHA1_HEX_BYTES];
    enum known_script script = known_script_load(kv_slice_from_string(text), hex);
    ck_assert_int_eq(known_script_find(kv_slice(hex, SHA1_HEX_BYTES - 1)), script);
    return script;
}

START_TEST(hashes_are_those_of_the_standard)
{
    char hex[SHA1_HEX_BYTES];
    char *long_text = malloc(1000000);
    sha1_hex(kv_slice_from_string("abc"), hex);
    ck_assert_str_eq(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sha1_hex(kv_slice(NULL, 0), hex);
    ck_assert_str_eq(hex, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    sha1_hex(kv_slice_from_string("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), hex);
    ck_assert_str_eq(hex, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    memset(long_text, 'a', 1000000);
    sha1_hex(kv_slice(long_text, 1000000), hex);
    ck_assert_str_eq(hex, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    free(long_text);
}
END_TEST

START_TEST(blanks_and_quotes_do_not_matter)
{
    ck_assert_int_eq(load("if redis.call(\"get\",KEYS[1]) == ARGV[1] then return "
                          "redis.call(\"del\",KEYS[1]) else return 0 end"),
                     SCRIPT_RELEASE);
    ck_assert_int_eq(
        load("\n  if redis.call('GET', KEYS[1])==ARGV[1]\n then\n return redis.call('DEL', "
             "KEYS[1]);\n else return 0\n end\n"),
        SCRIPT_RELEASE);
    ck_assert_int_eq(load("if redis.call('get', KEYS[1]) == ARGV[1] then return "
                          "redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"),
                     SCRIPT_EXPIRE_MS);
}
END_TEST

START_TEST(other_scripts_stay_unknown)
{
    char long_text[2000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    ck_assert_int_eq(load("return 1"), SCRIPT_UNKNOWN);
    ck_assert_int_eq(load(""), SCRIPT_UNKNOWN);
    ck_assert_int_eq(load(long_text), SCRIPT_UNKNOWN);
    ck_assert_int_eq(
        load("if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[2]) "
             "else return 0 end"),
        SCRIPT_UNKNOWN);
}
END_TEST

START_TEST(counters_are_known_by_their_text)
{
    ck_assert_int_eq(load("\n    return redis.call('INCRBY', KEYS[1], ARGV[1])\n    "), SCRIPT_ADD);
    ck_assert_int_eq(load("local exists = redis.call('EXISTS', KEYS[1])\n"
                          "if (exists == 1) then\n"
                          "    return redis.call('INCRBY', KEYS[1], ARGV[1])\n"
                          "else return false end\n"),
                     SCRIPT_ADD_PRESENT);
    ck_assert_int_eq(load("return redis.call('INCRBY', KEYS[1], ARGV[2])"), SCRIPT_UNKNOWN);
}
END_TEST

START_TEST(some_are_known_without_their_text)
{
    ck_assert_int_eq(
        known_script_find(kv_slice_from_string("c3f8721cbb97f72bc19e972846bd7aaf91901658")),
        SCRIPT_RELEASE);
    ck_assert_int_eq(
        known_script_find(kv_slice_from_string("A4E8783852E6B949F9EF3A97212805108459A890")),
        SCRIPT_EXTEND);
    ck_assert_int_eq(known_script_find(kv_slice_from_string("c3f8")), SCRIPT_UNKNOWN);
}
END_TEST

TEST_SUITE(kresp_scripts)
{
    TCase *scripts = tcase_create("scripts");
    tcase_add_checked_fixture(scripts, NULL, known_script_flush);
    tcase_add_test(scripts, hashes_are_those_of_the_standard);
    tcase_add_test(scripts, blanks_and_quotes_do_not_matter);
    tcase_add_test(scripts, other_scripts_stay_unknown);
    tcase_add_test(scripts, counters_are_known_by_their_text);
    tcase_add_test(scripts, some_are_known_without_their_text);
    suite_add_tcase(suite, scripts);
}

/*
 * covers: clientk/program/cli/line.c common/text/escape.c clientk/program/cli/arguments.c
 * common/options/option_table.c clientk/program/commands/invocation.c
 *
 * The line parser under libFuzzer: any bytes become words or an error with a column inside the
 * line; no word leaves the line's memory; and the words, written out in their escaped form, are
 * read back as the same words. Then the line goes the way of a batch line, up to its operation.
 */
#include "tests/fuzz/fuzzing.h"

#include "clientk/program/commands/invocation.h"
#include "clientk/program/cli/line.h"
#include "common/text/escape.h"

/* The words as one line; free it. */
static char *write_words(const struct line *line, size_t *size)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, size);
    require(stream != NULL);
    for (size_t i = 0; i < line->count; i++) {
        escape_print_word(stream, word_slice(&line->words[i]));
        fputc(' ', stream);
    }
    fclose(stream);
    return text;
}

static void check_words_come_back(const struct line *line)
{
    struct line again = {0};
    struct line_error error;
    size_t size = 0;
    char *text = write_words(line, &size);
    require(line_parse(&again, text, size, &error));
    require(again.count == line->count);
    for (size_t i = 0; i < line->count; i++)
        require(kv_slice_equal(word_slice(&again.words[i]), word_slice(&line->words[i])));
    free(text);
    line_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct line line = {0};
    struct line_error wrong = {0};
    struct kv_error error = {0};
    if (line_parse(&line, (const char *)data, size, &wrong)) {
        struct invocation prepared;
        for (size_t i = 0; i < line.count; i++)
            require(line.words[i].data[line.words[i].size] == '\0');
        check_words_come_back(&line);
        enum kv_status status =
            invocation_prepare(&prepared, line.words, line.count, COMMAND_BATCH, NULL, &error);
        require((status == KV_OK) == (error.text[0] == '\0'));
        invocation_free(&prepared);
    } else {
        require(wrong.column >= 1 && wrong.column <= size && wrong.message && line.count == 0);
    }
    line_free(&line);
    return 0;
}

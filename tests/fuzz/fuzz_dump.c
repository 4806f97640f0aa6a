/*
 * covers: tools/transfer/dump_format.c clientk/program/commands/line_source.c
 * clientk/program/commands/key_command.c
 *
 * Dumps as `clientk load` reads them, under libFuzzer. An input that begins with an even byte is a
 * file: its lines are handed out whole, in order and once, and each is judged and taken up to its
 * operation. Any other is an entry (byte 1: bytes of the key; 8 bytes: its expiry): written as a
 * dump it is a sound one that gives the same entry, and with any one byte of its line changed it is
 * not.
 */
#include "tests/fuzz/fuzzing.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/transfer/dump_format.h"
#include "clientk/program/commands/invocation.h"
#include "clientk/program/commands/line_source.h"
#include "common/memory/cursor.h"

#define MOST_BYTES (1u << 16)

/* Prints the line of an entry. */
static void print_entry(FILE *stream, struct kv_slice key, struct kv_slice value,
                        uint64_t expiry_ms)
{
    char *text = calloc(1, DUMP_ENTRY_MAX_BYTES(key.size, value.size));
    fwrite(text, 1, dump_put_entry(text, key, value, expiry_ms), stream);
    free(text);
}

static int file_fd = -1;
static char file_path[32];

static void write_file(const uint8_t *data, size_t size)
{
    if (file_fd < 0) {
        file_fd = memfd_create("fuzz_dump", MFD_CLOEXEC);
        snprintf(file_path, sizeof file_path, "/proc/self/fd/%d", file_fd);
    }
    require(file_fd >= 0 && ftruncate(file_fd, 0) == 0);
    require(pwrite(file_fd, data, size, 0) == (ssize_t)size);
}

/* A line as load takes it. KV_OK: *prepared has its operation, or it is empty. */
static enum kv_status take_line(const char *text, size_t size, struct line *words,
                                struct invocation *prepared)
{
    struct line_error wrong;
    struct kv_error error = {0};
    *prepared = (struct invocation){0};
    if (!line_parse(words, text, size, &wrong))
        return KV_USAGE;
    return invocation_prepare(prepared, words->words, words->count, COMMAND_BATCH, NULL, &error);
}

static void judge_line(struct dump_check *check, const char *text, size_t size)
{
    struct line words = {0};
    struct invocation prepared;
    if (dump_check_line(check, text, size))
        return;
    if (take_line(text, size, &words, &prepared) == KV_OK && prepared.for_key)
        require(prepared.key_command.operation.key.size > 0);
    invocation_free(&prepared);
    line_free(&words);
}

/* A file that begins so is read as what it was compressed from, or not at all. */
static bool is_compressed(const uint8_t *data, size_t size)
{
    return size >= 4 && memcmp(data, "\x28\xb5\x2f\xfd", 4) == 0;
}

static void read_file(const uint8_t *data, size_t size)
{
    bool is_text = !is_compressed(data, size);
    struct line_source *source = NULL;
    struct line_chunk chunk = {0};
    struct dump_check check = {0};
    struct kv_error error = {0};
    uint64_t lines = 0;
    size_t at = 0;
    require(line_source_open(file_path, &source, &error) == KV_OK);
    while (line_source_take(source, LINE_SOURCE_CHUNK, &chunk)) {
        require(chunk.first_number == lines + 1);
        for (size_t i = 0; i < chunk.count; i++, lines++) {
            const struct source_line *line = &chunk.lines[i];
            const char *text = chunk.bytes + line->offset;
            require(line->offset + line->size <= chunk.size);
            require(!is_text ||
                    (at + line->size <= size && memcmp(text, data + at, line->size) == 0));
            at += line->size + 1;
            judge_line(&check, text, line->size);
        }
    }
    require(!is_text || (line_source_error(source) == NULL && at >= size && at <= size + 1));
    char reason[160];
    dump_check_verdict(&check, reason);
    line_source_close(source);
    line_chunk_free(&chunk);
}

/* The lines of a text, judged; the verdict. */
static bool is_sound(const char *text, size_t size, struct dump_check *check)
{
    char reason[160];
    *check = (struct dump_check){0};
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t line_bytes = end ? (size_t)(end - text) - at : size - at;
        dump_check_line(check, text + at, line_bytes);
        at += line_bytes + 1;
    }
    return dump_check_verdict(check, reason) == NULL;
}

static void check_entry_comes_back(const char *line, size_t size, struct kv_slice key,
                                   struct kv_slice value, uint64_t expiry_ms)
{
    struct line words = {0};
    struct invocation prepared;
    require(take_line(line, size, &words, &prepared) == KV_OK && prepared.command);
    const struct clientk_operation *operation = &prepared.key_command.operation;
    require(operation->opcode == CLIENTK_PUT && kv_slice_equal(operation->key, key) &&
            kv_slice_equal(operation->value, value) && operation->write.expiry_ms == expiry_ms);
    invocation_free(&prepared);
    line_free(&words);
}

static void write_and_read_entry(struct kv_slice key, struct kv_slice value, uint64_t expiry_ms,
                                 uint8_t change)
{
    char *text = NULL;
    size_t size = 0, line_at, line_end;
    struct dump_check check;
    FILE *stream = open_memstream(&text, &size);
    require(stream != NULL);
    dump_print_header(stream, "/fuzz");
    fflush(stream);
    line_at = size;
    print_entry(stream, key, value, expiry_ms);
    fflush(stream);
    line_end = size - 1;
    dump_print_trailer(stream, 1, dump_checksum(0, text + line_at, line_end - line_at));
    fclose(stream);
    require(is_sound(text, size, &check) && check.entries == 1);
    check_entry_comes_back(text + line_at, line_end - line_at, key, value, expiry_ms);
    char *changed = text + line_at + change % (line_end - line_at);
    *changed = (char)(*changed == 'x' ? 'y' : 'x');
    require(!is_sound(text, size, &check));
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > MOST_BYTES)
        return 0;
    if (data[0] % 2 == 0) {
        write_file(data + 1, size - 1);
        read_file(data + 1, size - 1);
    } else if (size > 11) {
        uint64_t expiry_ms = load_u64(data + 2);
        size_t key_bytes = 1 + data[1] % (size - 10);
        struct kv_slice key = kv_slice(data + 10, key_bytes);
        write_and_read_entry(key, kv_slice(data + 10 + key_bytes, size - 10 - key_bytes), expiry_ms,
                             data[0]);
    }
    return 0;
}

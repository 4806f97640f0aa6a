#include "common/text/escape.h"

#include <stdint.h>
#include <string.h>

/* The bytes with a C escape of one letter, and those letters. */
static const char escaped_bytes[] = {'\\', '"', '\n', '\r', '\t', '\0'};
static const char escape_letters[] = {'\\', '"', 'n', 'r', 't', '0'};

/* Of each byte its escaped form, and how many characters of that count. */
#define IS_PLAIN(byte) ((byte) >= 0x20 && (byte) < 0x7f && (byte) != '"' && (byte) != '\\')
#define HEX_DIGIT(n)   ((char)((n) < 10 ? '0' + (n) : 'a' + (n)-10))
#define LETTER_OF(byte)                             \
    ((byte) == '\\' || (byte) == '"' ? (char)(byte) \
     : (byte) == '\n'                ? 'n'          \
     : (byte) == '\r'                ? 'r'          \
     : (byte) == '\t'                ? 't'          \
     : (byte) == '\0'                ? '0'          \
                                     : 'x')
#define TEXT_OF(byte)                                                                       \
    {                                                                                       \
        IS_PLAIN(byte) ? (char)(byte) : '\\', LETTER_OF(byte), HEX_DIGIT((byte) >> 4 & 15), \
            HEX_DIGIT((byte)&15)                                                            \
    }
#define LENGTH_OF(byte) (IS_PLAIN(byte) ? 1 : LETTER_OF(byte) == 'x' ? 4 : 2)
#define FOUR(entry, n)  entry(n), entry((n) + 1), entry((n) + 2), entry((n) + 3)
#define SIXTEEN(entry, n) \
    FOUR(entry, n), FOUR(entry, (n) + 4), FOUR(entry, (n) + 8), FOUR(entry, (n) + 12)
#define QUARTER(entry, n) \
    SIXTEEN(entry, n), SIXTEEN(entry, (n) + 16), SIXTEEN(entry, (n) + 32), SIXTEEN(entry, (n) + 48)
#define OF_ALL_BYTES(entry)                                                             \
    {                                                                                   \
        QUARTER(entry, 0), QUARTER(entry, 64), QUARTER(entry, 128), QUARTER(entry, 192) \
    }

static const char text_of[256][4] = OF_ALL_BYTES(TEXT_OF);
static const uint8_t length_of[256] = OF_ALL_BYTES(LENGTH_OF);

/* Not inlined: where the compiler knows the size of the room, it would check it byte by byte. */
__attribute__((noinline)) char *escape_to(char *out, struct kv_slice bytes)
{
    const uint8_t *data = bytes.data;
    for (size_t i = 0; i < bytes.size; i++) {
        memcpy(out, text_of[data[i]], sizeof text_of[0]); /* all four: cheaper than to ask */
        out += length_of[data[i]];
    }
    return out;
}

/* Escaped at a time. */
#define PIECE_BYTES 1024u

void escape_print(FILE *stream, struct kv_slice bytes)
{
    char piece[ESCAPE_MAX_BYTES(PIECE_BYTES)];
    const char *data = bytes.data;
    for (size_t done = 0; done < bytes.size && !ferror(stream);) {
        size_t size = bytes.size - done < PIECE_BYTES ? bytes.size - done : PIECE_BYTES;
        const char *end = escape_to(piece, kv_slice(data + done, size));
        fwrite(piece, 1, (size_t)(end - piece), stream);
        done += size;
    }
}

#define IS_WORD_BYTE(byte)                                                                  \
    (((byte) >= 'a' && (byte) <= 'z') || ((byte) >= 'A' && (byte) <= 'Z') ||                \
     ((byte) >= '-' && (byte) <= ':') || (byte) == '_' || (byte) == '@' || (byte) == '%' || \
     (byte) == '+' || (byte) == '=')

static const bool is_word_byte[256] = OF_ALL_BYTES(IS_WORD_BYTE);

static bool is_bare_word(struct kv_slice bytes)
{
    const uint8_t *data = bytes.data;
    for (size_t i = 0; i < bytes.size; i++) {
        if (!is_word_byte[data[i]])
            return false;
    }
    return bytes.size > 0;
}

void escape_print_word(FILE *stream, struct kv_slice bytes)
{
    const char *quote = is_bare_word(bytes) ? "" : "\"";
    fputs(quote, stream);
    escape_print(stream, bytes);
    fputs(quote, stream);
}

/* The length of the well-formed UTF-8 sequence at data (Unicode 15, table 3-7), 0 if there is
 * none. */
static size_t utf8_length(const uint8_t *data, size_t size)
{
    uint8_t lead = data[0];
    if (lead < 0x80)
        return 1;
    size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                    : lead >= 0xe0 && lead <= 0xef ? 3
                    : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                   : 0;
    if (length == 0 || length > size)
        return 0;
    /* The second byte rules out overlong forms, surrogates, and what is above U+10FFFF. */
    uint8_t lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (data[1] < lowest || data[1] > highest)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((data[i] & 0xc0) != 0x80)
            return 0;
    }
    return length;
}

/* A control character of ISO 6429: C0, DEL, or C1 (U+0080..U+009F) in UTF-8. */
static bool is_control(const uint8_t *data, size_t length)
{
    return data[0] < 0x20 || data[0] == 0x7f || (length == 2 && data[0] == 0xc2 && data[1] < 0xa0);
}

/* Prints one character that begins at data; returns the bytes it took. */
static size_t print_json_character(FILE *stream, const uint8_t *data, size_t size)
{
    size_t length = utf8_length(data, size);
    if (length == 0 || is_control(data, length)) {
        fprintf(stream, "\\u%04x",
                length == 2 ? data[1] : data[0]); /* U+0080..U+009F are c2 80..9f */
        return length == 2 ? 2 : 1;
    }
    if (data[0] == '"' || data[0] == '\\')
        fputc('\\', stream);
    fwrite(data, 1, length, stream);
    return length;
}

/* How many bytes stand for themselves, in JSON too. */
static size_t plain_run(const uint8_t *data, size_t size)
{
    size_t run = 0;
    while (run < size && length_of[data[run]] == 1)
        run++;
    return run;
}

void escape_print_json(FILE *stream, struct kv_slice bytes)
{
    const uint8_t *data = bytes.data;
    fputc('"', stream);
    for (size_t i = 0; i < bytes.size && !ferror(stream);) {
        size_t run = plain_run(data + i, bytes.size - i);
        if (run > 0)
            fwrite(data + i, 1, run, stream);
        i += run;
        if (i < bytes.size)
            i += print_json_character(stream, data + i, bytes.size - i);
    }
    fputc('"', stream);
}

bool escape_is_utf8(struct kv_slice bytes)
{
    const uint8_t *data = bytes.data;
    for (size_t i = 0; i < bytes.size;) {
        size_t length = utf8_length(data + i, bytes.size - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

bool escape_is_printable(struct kv_slice bytes, bool lines)
{
    const uint8_t *data = bytes.data;
    for (size_t i = 0; i < bytes.size;) {
        size_t length = utf8_length(data + i, bytes.size - i);
        bool blank = lines && (data[i] == '\n' || data[i] == '\t');
        if (length == 0 || (is_control(data + i, length) && !blank))
            return false;
        i += length;
    }
    return true;
}

void escape_print_text(FILE *stream, const char *text)
{
    if (escape_is_printable(kv_slice_from_string(text), false))
        fputs(text, stream);
    else
        escape_print(stream, kv_slice_from_string(text));
}

void escape_print_document(FILE *stream, struct kv_slice json)
{
    const uint8_t *data = json.data;
    for (size_t i = 0; i < json.size && !ferror(stream);) {
        size_t length = utf8_length(data + i, json.size - i);
        if (length > 0 && (!is_control(data + i, length) || data[i] == '\n' || data[i] == '\t')) {
            fwrite(data + i, 1, length, stream);
            i += length;
        } else {
            i += print_json_character(stream, data + i, json.size - i);
        }
    }
}

static int escape_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Decodes the escape whose backslash was at text[-1]. Returns the bytes of text it took, 0 if it is
 * malformed. */
static size_t decode_escape(const char *text, size_t size, char *byte)
{
    if (size == 0)
        return 0;
    if (text[0] == 'x') {
        int high = size >= 3 ? escape_hex_digit(text[1]) : -1;
        int low = size >= 3 ? escape_hex_digit(text[2]) : -1;
        if (high < 0 || low < 0)
            return 0;
        *byte = (char)(high * 16 + low);
        return 3;
    }
    const char *found = memchr(escape_letters, text[0], sizeof escape_letters);
    if (!found)
        return 0;
    *byte = escaped_bytes[found - escape_letters];
    return 1;
}

long unescape(const char *text, size_t size, char *out, size_t *error_at)
{
    size_t used = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '\\') {
            out[used++] = text[i];
            continue;
        }
        size_t taken = decode_escape(text + i + 1, size - i - 1, &out[used]);
        if (taken == 0) {
            if (error_at)
                *error_at = i;
            return -1;
        }
        used++;
        i += taken;
    }
    return (long)used;
}

#include "bridges/kresp/protocol/resp_reply.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/memory/copy.h"
#include "common/text/parse.h"

#define MAX_ERROR_BYTES 640

static void append_text(struct resp_reply *reply, const char *text)
{
    byte_buffer_append(&reply->bytes, text, strlen(text));
}

/* Appends "<type><number>\r\n". */
static void append_header(struct resp_reply *reply, char type, int64_t number)
{
    char *room = byte_buffer_room(&reply->bytes, INTEGER_BYTES + 3);
    if (!room)
        return;
    room[0] = type;
    size_t size = 1 + format_i64(number, room + 1);
    room[size++] = '\r';
    room[size++] = '\n';
    reply->bytes.end += size;
}

void reply_simple(struct resp_reply *reply, const char *text)
{
    size_t size = strlen(text);
    char *room = byte_buffer_room(&reply->bytes, size + 3);
    if (!room)
        return;
    room[0] = '+';
    memcpy(room + 1, text, size);
    memcpy(room + 1 + size, "\r\n", 2);
    reply->bytes.end += size + 3;
}

void reply_error(struct resp_reply *reply, const char *format, ...)
{
    char text[MAX_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *at = text; *at; at++)
        if (*at == '\r' || *at == '\n')
            *at = ' ';
    append_text(reply, "-");
    append_text(reply, text);
    append_text(reply, "\r\n");
}

void reply_integer(struct resp_reply *reply, int64_t value)
{
    append_header(reply, ':', value);
}

char *reply_bulk_room(struct resp_reply *reply, size_t size)
{
    append_header(reply, '$', (int64_t)size);
    char *room = byte_buffer_room(&reply->bytes, size + 2);
    if (!room)
        return NULL;
    room[size] = '\r';
    room[size + 1] = '\n';
    reply->bytes.end += size + 2;
    return room;
}

void reply_bulk(struct resp_reply *reply, struct kv_slice bytes)
{
    char *room = reply_bulk_room(reply, bytes.size);
    if (room)
        copy_bytes(room, bytes.data, bytes.size);
}

void reply_bulk_text(struct resp_reply *reply, const char *text)
{
    reply_bulk(reply, kv_slice_from_string(text));
}

void reply_null(struct resp_reply *reply)
{
    append_text(reply, reply->protocol >= 3 ? "_\r\n" : "$-1\r\n");
}

void reply_null_array(struct resp_reply *reply)
{
    append_text(reply, reply->protocol >= 3 ? "_\r\n" : "*-1\r\n");
}

void reply_verbatim(struct resp_reply *reply, struct kv_slice text)
{
    if (reply->protocol < 3) {
        reply_bulk(reply, text);
        return;
    }
    append_header(reply, '=', (int64_t)text.size + 4);
    append_text(reply, "txt:");
    byte_buffer_append(&reply->bytes, text.data, text.size);
    append_text(reply, "\r\n");
}

void reply_array(struct resp_reply *reply, size_t count)
{
    append_header(reply, '*', (int64_t)count);
}

void reply_push(struct resp_reply *reply, size_t count)
{
    append_header(reply, reply->protocol >= 3 ? '>' : '*', (int64_t)count);
}

void reply_map(struct resp_reply *reply, size_t pairs)
{
    if (reply->protocol >= 3)
        append_header(reply, '%', (int64_t)pairs);
    else
        append_header(reply, '*', (int64_t)pairs * 2);
}

void reply_set(struct resp_reply *reply, size_t count)
{
    append_header(reply, reply->protocol >= 3 ? '~' : '*', (int64_t)count);
}

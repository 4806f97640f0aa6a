/*
 * position_text: positions in the changes of all data files as text that can be an argument, a line
 * of a file, or a part of a URL: "w1." and base64 without '+', '/' and '='.
 *
 * Threads: any.
 */
#ifndef MQKV_CLIENTK_PIPELINE_POSITION_TEXT_H
#define MQKV_CLIENTK_PIPELINE_POSITION_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the room that the text of `size` bytes of positions needs, its NUL included. */
size_t position_text_bytes(size_t size);

/* Writes `size` bytes of positions to `text`, with a NUL at its end. Returns its length without
 * that. */
size_t position_text_write(const uint8_t *positions, size_t size, char *text);

/* Reads `text` into *positions, of *size bytes, which the caller frees. False: it is no such text,
 * or there is no memory. */
bool position_text_read(const char *text, uint8_t **positions, size_t *size);

#endif

/*
 * position_text: positions in the changes of all data files as text that can be an argument, a line
 * of a file, or a part of a URL: "w1." and base64 without '+', '/' and '='.
 */
#ifndef MQKV_CLIENTK_PIPELINE_POSITION_TEXT_H
#define MQKV_CLIENTK_PIPELINE_POSITION_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for the text of so many bytes of positions, its NUL included. */
size_t position_text_bytes(size_t size);

/* Returns the length of the text, which ends with NUL. */
size_t position_text_write(const uint8_t *positions, size_t size, char *text);

/* *positions is to be freed. False: the text is none of these, or there is no memory. */
bool position_text_read(const char *text, uint8_t **positions, size_t *size);

#endif

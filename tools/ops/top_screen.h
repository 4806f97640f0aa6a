/*
 * top_screen: a terminal that shows one page after the other and gives single keys.
 */
#ifndef MQKV_TOOLS_OPS_TOP_SCREEN_H
#define MQKV_TOOLS_OPS_TOP_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct top_screen;

/* Takes over the terminal of the stream: a page of its own, no echo, keys without Enter if standard
 * input is the terminal too. NULL: out of memory. */
struct top_screen *top_screen_begin(FILE *stream);

/* Gives the terminal back as it was. NULL is harmless. */
void top_screen_end(struct top_screen *screen);

/* Returns how many lines a page may have now. */
size_t top_screen_rows(const struct top_screen *screen);

/* Shows the text, cut to the size that the terminal has now. */
void top_screen_show(struct top_screen *screen, const char *text);

enum top_event { TOP_TIME, TOP_KEY, TOP_RESIZED, TOP_INTERRUPTED };

/* Waits until that time (clock_monotonic_ns), or for a key, a new size of the terminal, or a signal
 * (interrupt.h). */
enum top_event top_screen_wait(struct top_screen *screen, uint64_t until_ns, char *key);

#endif

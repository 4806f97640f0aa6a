/*
 * settings: the options as they were given, each with its origin: what has changed between two
 * readings of the configuration file, and the whole as such a file.
 */
#ifndef MQKV_SERVERK_CONFIG_SETTINGS_H
#define MQKV_SERVERK_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "mqkv/slice.h"
#include "serverk/config/options.h"

/* One option of a section that is another in `now` than in `before`. */
struct changed_setting {
    const char *name;
    const char *before, *now; /* as given; NULL: not given */
};

/* Finds the next option, from number *next on, that was given otherwise in `now` than in `before`,
 * and raises *next behind it; false: there is none. */
bool settings_next_change(const struct option_origin *before, const struct option_origin *now,
                          unsigned *next, struct changed_setting *change);

/* Returns what help says of the row's default; "off" of a flag; "" where help says nothing. */
struct kv_slice settings_default(const struct option_row *row);

/* Returns the row's value where nobody has given one: what settings_default says, or what follows
 * from the other options. number: room for the text. */
struct kv_slice settings_effective_default(const struct server_options *options,
                                           const struct option_row *row, char number[32]);

/* Returns the value `given` of the row with its unit, where it has one and was given without:
 * "250ms", "1M". text: room for it, of SETTINGS_VALUE_BYTES. */
#define SETTINGS_VALUE_BYTES 64u
struct kv_slice settings_value(const struct option_row *row, const char *given,
                               char text[SETTINGS_VALUE_BYTES]);

/* Writes where a value comes from: "default", "command line", "FILE:LINE", "config set"; or the
 * option that stands for this one, too: "as-cache". */
void settings_describe_origin(const struct option_origin *origin, char *text, size_t text_bytes);

/* Prints the settings as a configuration file, each with where it comes from; what nobody has given
 * (it has its default, or another option stands for it) as a comment, with what it means. */
void settings_print(const struct server_options *options, FILE *stream);

#endif

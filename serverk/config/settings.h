/*
 * settings: the options as they were given, each with its origin: what has changed between two
 * readings of the configuration file, and the whole as such a file.
 */
#ifndef MQKV_SERVERK_CONFIG_SETTINGS_H
#define MQKV_SERVERK_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdio.h>

#include "serverk/config/options.h"

/* One option that is another in `now` than in `before`. */
struct changed_setting {
    const char *name;
    const char *before, *now; /* as given; NULL: not given */
};

/* The next such from option *next on, which it raises; false when there is none. */
bool settings_next_change(const struct server_options *before, const struct server_options *now,
                          unsigned *next, struct changed_setting *change);

/* Prints the settings as a configuration file, each with where it comes from; what nobody has given
 * as a comment, with what it means. */
void settings_print(const struct server_options *options, FILE *stream);

#endif

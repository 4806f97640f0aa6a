/*
 * command_line: reads the options of serverk from its command line and its configuration file,
 * and checks which of them go together.
 */
#ifndef MQKV_SERVERK_CONFIG_COMMAND_LINE_H
#define MQKV_SERVERK_CONFIG_COMMAND_LINE_H

#include "serverk/config/options.h"

/* Takes the command line, then what the configuration file says beside it. Strings in *options
 * borrow from argv, whose words it moves, or belong to *options: options_free, whatever the
 * outcome. */
enum options_outcome command_line_parse(int argc, char **argv, struct server_options *options,
                                        struct kv_error *error);

/* The same once more from the words that *options came from: what the configuration file says by
 * now. Relative names are those of the directory that the daemon runs in. */
enum options_outcome command_line_parse_again(const struct server_options *options,
                                              struct server_options *again, struct kv_error *error);

/* The options that these texts, one per row, stand for; they are borrowed. Text NULL: not given.
 * Reads no file. */
enum options_outcome command_line_take(const struct option_origin *given,
                                       struct server_options *options, struct kv_error *error);

#endif

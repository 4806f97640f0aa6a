/*
 * option_rules: which options of serverk go together.
 */
#ifndef MQKV_SERVERK_CONFIG_OPTION_RULES_H
#define MQKV_SERVERK_CONFIG_OPTION_RULES_H

#include "serverk/config/options.h"

/* Checks what no option can tell alone, and fills in the defaults that depend on others. *options:
 * those of the line, or a copy of them. OPTIONS_RUN, OPTIONS_BAD: *error names both options. */
enum options_outcome option_rules_check(const struct parsed_line *line,
                                        struct server_options *options, struct kv_error *error);

#endif

/*
 * option_file: a configuration file, with the options of a table (option_table.h) as its keys:
 *
 *     # a comment
 *     [section]
 *     name = value
 *
 * The names are those of the long options, each in the section that its row says. Read by inih; a
 * line has at most OPTION_FILE_LINE_BYTES.
 */
#ifndef MQKV_SERVERK_CONFIG_OPTION_FILE_H
#define MQKV_SERVERK_CONFIG_OPTION_FILE_H

#include "common/options/option_table.h"
#include "serverk/config/access_rules.h"

#define OPTION_FILE_LINE_BYTES 197u
#define OPTION_FILE_MAX_BYTES  (1u << 20)

/* Reads the file and takes its values into the set's target, where set->origins says that nobody
 * gave one yet; with each the file and the line are noted. Sections
 * about users and quotas go to *access (access_rules.h), also after a failure the caller's. The
 * texts of values stay as long as the
 * process. `file` is borrowed by the origins.
 *
 * KV_USAGE, with file and line: an unknown key or section, a key in another section, one that
 * stands twice, a value that is none, a line that is too long or none of the above. KV_NOT_FOUND,
 * KV_DENIED, KV_IO, ...: the file cannot be read. KV_NO_MEMORY. After a failure the target may have
 * some of the values. */
enum kv_status option_file_take(const char *file, const struct option_set *set,
                                struct access_rules **access, struct kv_error *error);

#endif

/*
 * foreign: commands of other key-value stores (Redis, memcached) that people type from habit, and
 * what to use instead.
 */
#ifndef MQKV_CLIENTK_PROGRAM_CLI_FOREIGN_H
#define MQKV_CLIENTK_PROGRAM_CLI_FOREIGN_H

/* What to use instead of the command `name` (letter case is ignored): the end of a sentence that
 * begins "mqkv has no NAME: ". NULL: the name is unknown. */
const char *foreign_advice(const char *name);

/* Returns what does the same as an option of other stores' clients: an option of clientk as a word,
 * perhaps with an example behind '='. NULL: it is none of theirs. */
const char *foreign_option(const char *word);

#endif

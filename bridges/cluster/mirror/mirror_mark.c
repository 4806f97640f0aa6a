#include "bridges/cluster/mirror/mirror_mark.h"

#include <stdio.h>
#include <string.h>

#include "common/report/error.h"
#include "bridges/cluster/natskv/natskv.h"

#define COMPLETE "complete "
#define BEGUN    "begun "

static void word_of(const struct mirror_state *state, bool complete,
                    char word[sizeof COMPLETE + MIRROR_NAME_DIGITS])
{
    snprintf(word, sizeof COMPLETE + MIRROR_NAME_DIGITS, "%s%s", complete ? COMPLETE : BEGUN,
             state->copy);
}

enum kv_status mirror_mark_set(struct store_engine *engine, const struct mirror_state *state,
                               bool complete, struct kv_error *error)
{
    char word[sizeof COMPLETE + MIRROR_NAME_DIGITS];
    word_of(state, complete, word);
    return natskv_mark_copy(engine, word, error);
}

enum kv_status mirror_mark_look(struct store_engine *engine, const struct mirror_state *state,
                                bool *holds, struct kv_error *error)
{
    char word[sizeof COMPLETE + MIRROR_NAME_DIGITS];
    struct natskv_copy copy;
    word_of(state, true, word);
    enum kv_status status = natskv_copy(engine, &copy, error);
    *holds = status == KV_OK && strcmp(copy.mark, word) == 0;
    return status;
}

enum kv_status mirror_mark_check_complete(struct store_engine *engine, struct kv_error *error)
{
    struct natskv_copy copy;
    enum kv_status status = natskv_copy(engine, &copy, error);
    if (status != KV_OK || !copy.is_copy || strncmp(copy.mark, COMPLETE, strlen(COMPLETE)) == 0)
        return status;
    return kv_error_set(error, KV_MISMATCH,
                        "the copy is not finished: its host was lost while everything was being "
                        "copied, or streams of it were made anew; keys are missing, and some may "
                        "be there that were deleted (--restore-unfinished takes what there is)");
}

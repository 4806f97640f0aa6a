#include "clientk/message/translate.h"

#include "clientk/base/last_error.h"
#include "clientk/base/value_memory.h"
#include "common/memory/copy.h"
#include "common/memory/reserved.h"
#include "common/report/error.h"

/* translate_operation takes the numbers of one for those of the other. */
_Static_assert((int)CLIENTK_GET == WIRE_OP_GET && (int)CLIENTK_EXISTS == WIRE_OP_EXISTS &&
                   (int)CLIENTK_PUT == WIRE_OP_PUT && (int)CLIENTK_DELETE == WIRE_OP_DELETE &&
                   (int)CLIENTK_ADD == WIRE_OP_ADD && (int)CLIENTK_APPEND == WIRE_OP_APPEND &&
                   (int)CLIENTK_EXCHANGE == WIRE_OP_EXCHANGE &&
                   (int)CLIENTK_TOUCH == WIRE_OP_TOUCH && (int)CLIENTK_SCAN == WIRE_OP_SCAN &&
                   (int)CLIENTK_STATS == WIRE_OP_STATS && (int)CLIENTK_PING == WIRE_OP_PING &&
                   (int)CLIENTK_SYNC == WIRE_OP_SYNC && (int)CLIENTK_BACKUP == WIRE_OP_BACKUP &&
                   (int)CLIENTK_ADMIN == WIRE_OP_ADMIN,
               "opcodes of clientk.h are those of the wire");

unsigned translate_durability(enum clientk_durability durability)
{
    switch (durability) {
    case CLIENTK_SYNC_INTERVAL:
        return WIRE_SYNC_INTERVAL;
    case CLIENTK_SYNC_ALWAYS:
        return WIRE_SYNC_ALWAYS;
    case CLIENTK_SERVER_DEFAULT:
        break;
    }
    return 0;
}

#define SYNC_FLAGS      (WIRE_SYNC_INTERVAL | WIRE_SYNC_ALWAYS)
#define CONDITION_FLAGS (WIRE_IF_ABSENT | WIRE_IF_PRESENT | WIRE_HAS_VERSION)
#define EXPIRY_FLAGS    (WIRE_HAS_EXPIRY | WIRE_KEEP_EXPIRY)

/* The flags that clientk_write_options may set for the operation. */
static unsigned write_option_flags(enum wire_opcode opcode)
{
    switch (opcode) {
    case WIRE_OP_PUT:
        return WIRE_GIVE_VERSION | CONDITION_FLAGS | EXPIRY_FLAGS | SYNC_FLAGS;
    case WIRE_OP_EXCHANGE:
        return CONDITION_FLAGS | EXPIRY_FLAGS | SYNC_FLAGS;
    case WIRE_OP_DELETE:
        return WIRE_HAS_VERSION | SYNC_FLAGS;
    case WIRE_OP_TOUCH:
        return WIRE_HAS_EXPIRY | SYNC_FLAGS;
    default:
        return SYNC_FLAGS;
    }
}

/* Refuses options that did not start from {0}, or are of a newer version. */
__attribute__((noinline)) static enum kv_status refuse_reserved(void)
{
    return kv_error_set(last_error_of_thread(), KV_UNSUPPORTED, "reserved: " RESERVED_ADVICE);
}

/* Refuses members of clientk_write_options, which stand for `flags`, that the operation does not
 * take. */
__attribute__((noinline)) static enum kv_status refuse_members(enum wire_opcode opcode,
                                                               unsigned flags)
{
    const char *operation = opcode == WIRE_OP_DELETE   ? "delete"
                            : opcode == WIRE_OP_APPEND ? "append"
                                                       : "touch";
    const char *member = flags & WIRE_IF_ABSENT      ? "if_absent"
                         : flags & WIRE_IF_PRESENT   ? "if_present"
                         : flags & WIRE_GIVE_VERSION ? "give_version"
                         : flags & WIRE_HAS_VERSION  ? "if_version"
                         : flags & WIRE_KEEP_EXPIRY  ? "keep_expiry"
                                                     : "expiry_ms";
    return kv_error_set(last_error_of_thread(), KV_USAGE, "%s does not take the option %s",
                        operation, member);
}

__attribute__((noinline)) static enum kv_status refuse_usage(const char *sentence)
{
    return kv_error_set(last_error_of_thread(), KV_USAGE, "%s", sentence);
}

/* Returns true if the options are as {0}: nearly all are. */
static inline bool write_options_are_plain(const struct clientk_write_options *options)
{
    return !options->if_absent && !options->if_present && !options->keep_expiry &&
           options->durability == CLIENTK_SERVER_DEFAULT &&
           (options->if_version | options->expiry_ms | options->give_version) == 0 &&
           RESERVED_IS_CLEAR(options->reserved);
}

enum kv_status translate_write(const struct clientk_write_options *options,
                               struct wire_operation *to)
{
    if (write_options_are_plain(options)) {
        to->flags = 0;
        to->version = to->expiry_ms = 0;
        return KV_OK;
    }
    if (!RESERVED_IS_CLEAR(options->reserved))
        return refuse_reserved();
    if (options->if_absent + options->if_present + (options->if_version != 0) > 1)
        return refuse_usage("only one of if_absent, if_present and if_version may be set");
    if (options->keep_expiry && options->expiry_ms != 0)
        return refuse_usage("only one of keep_expiry and expiry_ms may be set");
    if (options->give_version != 0 && options->if_version != 0)
        return refuse_usage("only one of give_version and if_version may be set");
    unsigned flags =
        (options->if_absent ? WIRE_IF_ABSENT : 0u) | (options->if_present ? WIRE_IF_PRESENT : 0u) |
        (options->if_version ? WIRE_HAS_VERSION : 0u) |
        (options->give_version ? WIRE_GIVE_VERSION : 0u) |
        (options->expiry_ms ? WIRE_HAS_EXPIRY : 0u) |
        (options->keep_expiry ? WIRE_KEEP_EXPIRY : 0u) | translate_durability(options->durability);
    unsigned refused = flags & ~write_option_flags(to->opcode);
    if (refused)
        return refuse_members(to->opcode, refused);
    to->flags = (uint16_t)flags;
    to->version = options->give_version ? options->give_version : options->if_version;
    to->expiry_ms = options->expiry_ms;
    return KV_OK;
}

enum kv_status translate_add(const struct clientk_add_options *options, int64_t delta,
                             struct wire_operation *to)
{
    if (!RESERVED_IS_CLEAR(options->reserved) || !RESERVED_BYTES_ARE_CLEAR(options->reserved_bytes))
        return refuse_reserved();
    if (!options->has_min && options->min != 0)
        return refuse_usage("min is given, but has_min is not set");
    if (!options->has_max && options->max != 0)
        return refuse_usage("max is given, but has_max is not set");
    to->delta = delta;
    to->min = options->has_min ? options->min : INT64_MIN;
    to->max = options->has_max ? options->max : INT64_MAX;
    to->initial = options->initial;
    to->expiry_ms = options->expiry_ms;
    bool bounded = to->min != INT64_MIN || to->max != INT64_MAX;
    to->flags =
        (uint16_t)((bounded ? WIRE_HAS_BOUNDS : 0u) | (options->if_present ? 0u : WIRE_CREATE) |
                   (options->expiry_ms ? WIRE_HAS_EXPIRY : 0u) |
                   (options->canonical ? WIRE_CANONICAL : 0u) |
                   translate_durability(options->durability));
    return to->min <= to->max ? KV_OK : refuse_usage("min is above max");
}

enum kv_status translate_operation(const struct clientk_operation *from, struct wire_operation *to)
{
    to->opcode = (enum wire_opcode)from->opcode;
    to->flags = 0;
    to->key = from->key;
    to->value = kv_slice(NULL, 0);
    if (!RESERVED_IS_CLEAR(from->reserved))
        return refuse_reserved();
    switch (from->opcode) {
    case CLIENTK_GET:
    case CLIENTK_EXISTS:
    case CLIENTK_STATS:
    case CLIENTK_PING:
    case CLIENTK_SYNC:
    case CLIENTK_BACKUP:
        return KV_OK;
    case CLIENTK_ADMIN:
        to->value = from->value;
        return KV_OK;
    case CLIENTK_PUT:
    case CLIENTK_EXCHANGE:
    case CLIENTK_APPEND:
        to->value = from->value;
        return translate_write(&from->write, to);
    case CLIENTK_DELETE:
    case CLIENTK_TOUCH:
        return translate_write(&from->write, to);
    case CLIENTK_ADD:
        return translate_add(&from->add, from->delta, to);
    case CLIENTK_SCAN:
        if (!RESERVED_IS_CLEAR(from->scan.reserved))
            return refuse_reserved();
        to->flags = (uint16_t)((from->scan.keys_only ? WIRE_KEYS_ONLY : 0u) |
                               (from->scan.atomic ? WIRE_ATOMIC : 0u));
        to->cursor = from->scan.cursor;
        to->limit = from->scan.limit;
        return KV_OK;
    }
    return refuse_usage("opcode is none of enum clientk_opcode");
}

bool result_is_cut_short(const struct clientk_result *result)
{
    return (result->status == KV_CORRUPT || result->status == KV_IO) && result->value.version != 0;
}

/* Copies the value, which the result has or the segment. */
static enum kv_status copy_result_value(const struct wire_result *from,
                                        const struct large_values *values, struct clientk_value *to)
{
    size_t size = from->value.size;
    if (!value_reserve(to, size))
        return KV_NO_MEMORY;
    if (from->flags & WIRE_RESULT_IN_SEGMENT) {
        if (!values->segment ||
            !wire_segment_read(values->segment, from->value_offset, to->data, size))
            return KV_IO;
    } else {
        copy_bytes(to->data, from->value.data, size);
    }
    ((char *)to->data)[size] = '\0';
    to->size = size;
    return KV_OK;
}

void translate_result(const struct wire_result *from, const struct large_values *values,
                      bool gives_value, struct clientk_result *to)
{
    to->status = from->status;
    to->found = from->flags & WIRE_RESULT_FOUND;
    to->number = from->number;
    to->value.size = from->flags & WIRE_RESULT_NO_VALUE ? from->value.size : 0;
    to->value.version = from->version;
    to->value.expiry_ms = from->expiry_ms;
    if (!gives_value)
        return;
    bool has_sentence = from->value.size > 0 && !(from->flags & WIRE_RESULT_NO_VALUE);
    if (from->status != KV_OK && !has_sentence && !result_is_cut_short(to))
        return;
    enum kv_status status =
        from->flags & WIRE_RESULT_NO_VALUE ? KV_IO : copy_result_value(from, values, &to->value);
    if (status != KV_OK)
        result_clear(to, status);
}

bool operation_repeatable(const struct wire_operation *operation, bool repeat_writes)
{
    if (!operation_writes(operation))
        return true;
    bool conditional = operation->flags & (WIRE_HAS_VERSION | WIRE_IF_ABSENT | WIRE_IF_PRESENT);
    bool settable = operation->opcode == WIRE_OP_PUT || operation->opcode == WIRE_OP_DELETE ||
                    operation->opcode == WIRE_OP_TOUCH || operation->opcode == WIRE_OP_RANGE_DELETE;
    return repeat_writes && settable && !conditional;
}

enum kv_status operation_status_of_repeat(const struct wire_operation *operation,
                                          enum kv_status status)
{
    if (status == KV_OK || status == KV_NOT_DURABLE) /* it was executed this time */
        return status;
    bool is_gone = operation->opcode == WIRE_OP_DELETE && status == KV_NOT_FOUND;
    return is_gone ? KV_OK : KV_OUTCOME_UNKNOWN;
}

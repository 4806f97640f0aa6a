/*
 * covers: wire/message.c wire/operation.c wire/transact_value.c wire/range_value.c
 *
 * The message decoder under libFuzzer: any bytes decode to a message or to a named error, no slice
 * leaves the message, and what was decoded encodes to the same bytes (wire_read_whole aborts if
 * not). libFuzzer hands over each input in memory of its exact size, so a sanitizer sees one byte
 * too many.
 */
#include "tests/support/wire_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum kv_status status = wire_read_whole(data, size);
    if (status != KV_OK && status != KV_BAD_REQUEST && status != KV_UNSUPPORTED)
        __builtin_trap();
    return 0;
}

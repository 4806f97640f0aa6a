/*
 * sha1: the SHA-1 of a text (FIPS 180-4), by which Redis names a script. It protects nothing here.
 */
#ifndef MQKV_KRESP_PROTOCOL_SHA1_H
#define MQKV_KRESP_PROTOCOL_SHA1_H

#include "mqkv/slice.h"

#define SHA1_HEX_BYTES 41

/* Writes the SHA-1 as 40 lower-case hexadecimal digits and a NUL. */
void sha1_hex(struct kv_slice bytes, char hex[SHA1_HEX_BYTES]);

#endif

/*
 * sha1: the name that Redis gives a script: SHA-1 of its text (FIPS 180-4). Nothing is kept secret
 * by it.
 */
#ifndef MQKV_KRESP_PROTOCOL_SHA1_H
#define MQKV_KRESP_PROTOCOL_SHA1_H

#include "mqkv/slice.h"

#define SHA1_HEX_BYTES 41

/* As 40 lower-case hexadecimal digits and a NUL. */
void sha1_hex(struct kv_slice bytes, char hex[SHA1_HEX_BYTES]);

#endif

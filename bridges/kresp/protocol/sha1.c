#include "bridges/kresp/protocol/sha1.h"

#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES 64u

static uint32_t rotate(uint32_t word, unsigned bits)
{
    return word << bits | word >> (32 - bits);
}

static void add_block(uint32_t state[5], const unsigned char block[BLOCK_BYTES])
{
    uint32_t w[80];
    for (unsigned t = 0; t < 16; t++) {
        memcpy(&w[t], block + t * 4, 4);
        w[t] = be32toh(w[t]);
    }
    for (unsigned t = 16; t < 80; t++)
        w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (unsigned t = 0; t < 80; t++) {
        uint32_t f, k;
        if (t < 20) {
            f = (b & c) | (~b & d);
            k = 0x5a827999;
        } else if (t < 40) {
            f = b ^ c ^ d;
            k = 0x6ed9eba1;
        } else if (t < 60) {
            f = (b & c) | (b & d) | (c & d);
            k = 0x8f1bbcdc;
        } else {
            f = b ^ c ^ d;
            k = 0xca62c1d6;
        }
        uint32_t next = rotate(a, 5) + f + e + k + w[t];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1_hex(struct kv_slice bytes, char hex[SHA1_HEX_BYTES])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const unsigned char *at = bytes.data;
    size_t left = bytes.size;
    for (; left >= BLOCK_BYTES; left -= BLOCK_BYTES, at += BLOCK_BYTES)
        add_block(state, at);
    /* What is left of the text, one bit, zeros, and the number of bits, in one block or two. */
    unsigned char last[2 * BLOCK_BYTES] = {0};
    if (left > 0)
        memcpy(last, at, left);
    last[left] = 0x80;
    size_t last_bytes = left + 9 <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    uint64_t bits = htobe64((uint64_t)bytes.size * 8);
    memcpy(last + last_bytes - 8, &bits, 8);
    for (size_t i = 0; i < last_bytes; i += BLOCK_BYTES)
        add_block(state, last + i);
    for (unsigned i = 0; i < 5; i++)
        snprintf(hex + (size_t)i * 8, 9, "%08x", state[i]);
}

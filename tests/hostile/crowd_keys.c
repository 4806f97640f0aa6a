/*
 * crowd_keys HASH-KEY BITS COUNT: what an attacker would do who had found a store's hash key (32
 * hex digits, as it stands in the header of data.0000): prints COUNT keys, in hexadecimal, whose
 * hashes share the top BITS bits, so that all of them belong in one place of the index.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvstore/format/keyhash.h"

/* Little-endian, as in the header. */
static bool read_hash_key(const char *text, struct hash_key *key)
{
    uint8_t bytes[16];
    if (strlen(text) != 32)
        return false;
    for (unsigned i = 0; i < 16; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'}, *end;
        bytes[i] = (uint8_t)strtoul(digits, &end, 16);
        if (*end != '\0')
            return false;
    }
    for (unsigned word = 0; word < 2; word++) {
        key->words[word] = 0;
        for (unsigned i = 8; i-- > 0;)
            key->words[word] = key->words[word] << 8 | bytes[8 * word + i];
    }
    return true;
}

int main(int argc, char **argv)
{
    struct hash_key secret;
    if (argc != 4 || !read_hash_key(argv[1], &secret))
        return 2;
    unsigned bits = (unsigned)strtoul(argv[2], NULL, 10);
    unsigned long left = strtoul(argv[3], NULL, 10);
    if (bits < 1 || bits > 32)
        return 2;
    for (uint64_t number = 0; left > 0; number++) {
        if (keyhash(&secret, kv_slice(&number, sizeof number)) >> (64 - bits) != 0)
            continue;
        for (unsigned i = 0; i < sizeof number; i++)
            printf("%02x", (unsigned)(number >> (8 * i)) & 0xff);
        printf("\n");
        left--;
    }
    return 0;
}

#include "kvstore/boot.h"

#include <stdbool.h>
#include <string.h>

#include "kvstore/fileheader.h"
#include "kvstore/fileio.h"

static bool is_zero(const uint8_t id[FILE_NOTE_BYTES])
{
    static const uint8_t zeros[FILE_NOTE_BYTES];
    return memcmp(id, zeros, sizeof zeros) == 0;
}

enum boot boot_noted(const uint8_t *page, uint64_t salt)
{
    uint8_t noted[FILE_NOTE_BYTES], today[FILE_NOTE_BYTES];
    enum fileheader_note_state state = fileheader_read_note(page, FILE_NOTE_BOOT, salt, noted);
    fileio->boot_id(today);
    if (state == FILEHEADER_NOTE_DAMAGED)
        return BOOT_EARLIER;
    if (state == FILEHEADER_NOTE_ABSENT || is_zero(noted) || is_zero(today))
        return BOOT_UNKNOWN;
    return memcmp(noted, today, sizeof today) == 0 ? BOOT_THIS : BOOT_EARLIER;
}

void boot_note(uint8_t *page, uint64_t salt)
{
    uint8_t today[FILE_NOTE_BYTES];
    fileio->boot_id(today);
    fileheader_write_note(page, FILE_NOTE_BOOT, salt, today);
}

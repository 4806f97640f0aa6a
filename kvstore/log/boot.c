#include "kvstore/log/boot.h"

#include <string.h>

#include "kvstore/format/fileheader.h"
#include "kvstore/log/fileio.h"

static bool boot_id_is_zero(const uint8_t id[FILE_NOTE_BYTES])
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
    if (state == FILEHEADER_NOTE_ABSENT)
        return BOOT_NOT_NOTED;
    if (boot_id_is_zero(noted))
        return BOOT_WAS_UNTOLD;
    if (boot_id_is_zero(today))
        return BOOT_UNTOLD;
    return memcmp(noted, today, sizeof today) == 0 ? BOOT_THIS : BOOT_EARLIER;
}

const char *boot_why_unknown(enum boot boot)
{
    switch (boot) {
    case BOOT_UNTOLD:
        return "this system does not tell which boot it is (" FILEIO_BOOT_ID_PATH
               " cannot be read): open the store where it can";
    case BOOT_WAS_UNTOLD:
        return "the system that they were written on did not tell which boot it was "
               "(" FILEIO_BOOT_ID_PATH " could not be read)";
    default:
        return "an older version wrote them";
    }
}

void boot_note(uint8_t *page, uint64_t salt)
{
    uint8_t today[FILE_NOTE_BYTES];
    fileio->boot_id(today);
    fileheader_write_note(page, FILE_NOTE_BOOT, salt, today);
}

/* The note is of a boot that no machine has. */
void boot_note_failed_sync(uint8_t *page, uint64_t salt)
{
    uint8_t none[FILE_NOTE_BYTES];
    memset(none, 0xff, sizeof none);
    fileheader_write_note(page, FILE_NOTE_BOOT, salt, none);
}

#include "tests/support/skip.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* One write: tests are processes, whose lines must not mix. */
void skip_tell(const char *function, int index, const char *reason)
{
    char line[512], number[16] = "";
    size_t length = strlen(function);
    if (length > 3 && strcmp(function + length - 3, "_fn") == 0)
        length -= 3;
    if (index > 0)
        snprintf(number, sizeof number, "[%d]", index);
    int bytes =
        snprintf(line, sizeof line, "skip - %.*s%s: %s\n", (int)length, function, number, reason);
    fflush(stdout);
    if (write(STDOUT_FILENO, line, (size_t)bytes) < 0)
        _exit(2);
}

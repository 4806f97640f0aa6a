#include "common/report/standard_files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void standard_files_fill(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* it gets the lowest number that is free: this one */
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
    }
}

#include "clientk/program/cli/serverk_program.h"

#include <string.h>
#include <unistd.h>

bool serverk_program_find(char path[PATH_MAX])
{
    ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - sizeof "/serverk");
    if (size <= 0)
        return false;
    path[size] = '\0';
    strcpy(strrchr(path, '/'), "/serverk");
    return access(path, X_OK) == 0;
}

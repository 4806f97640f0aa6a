/*
 * store_files: the files of a store as tests handle them: a directory of its own, images of it in
 * memory that can be damaged and put back, and kvcheck run on it.
 */
#ifndef MQKV_TESTS_SUPPORT_STORE_FILES_H
#define MQKV_TESTS_SUPPORT_STORE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STORE_DIR_BYTES  192
#define IMAGE_MAX_FILES  16
#define IMAGE_NAME_BYTES 32

/* All functions end the test (or, outside of Check, the process) if the system does not play
 * along. */

/* Makes a new empty directory (test_path of test_names.h) and writes its name to dir. */
void store_dir_make(char dir[STORE_DIR_BYTES]);

/* How many ways of reading (enum kvstore_io, from the first on) the file system there has: all, or
 * all but KVSTORE_IO_DIRECT, which is the last. */
int store_io_count(void);

/* Whether the file system there is one without a disk (tmpfs). */
bool store_lies_in_memory(const char *dir);

/* Removes the directory with the files in it; one that is not there is fine. */
void store_dir_remove(const char *dir);

/* Removes the checkpoint of data.0000: the next start reads the log. */
void store_checkpoint_remove(const char *dir);

/* Flips a bit of the byte at the offset of data.0000; a store that has the file mapped sees it. */
void store_file_flip(const char *dir, off_t at);

struct image_file {
    char name[IMAGE_NAME_BYTES];
    uint8_t *bytes;
    size_t size;
};

/* The files of a directory but for "lock". */
struct image {
    struct image_file files[IMAGE_MAX_FILES];
    size_t count;
};

void image_take(struct image *image, const char *dir);
void image_free(struct image *image);

/* Empties the directory and writes the files of the image to it. */
void image_put(const struct image *image, const char *dir);

/* NULL if there is none of that name. */
struct image_file *image_find(struct image *image, const char *name);

/* Runs $MQKV_BUILD/kvcheck (MQKV_BUILD: "build" by default) with up to three arguments, the rest
 * NULL. Returns its exit status, or 128 + the signal that ended it. What it printed, on stdout and
 * stderr, is in output, NUL-terminated and cut to its size. */
int run_kvcheck(const char *arg1, const char *arg2, const char *arg3, char *output,
                size_t output_bytes);

/* Whether that kvcheck is there to be run. */
bool have_kvcheck(void);

#endif

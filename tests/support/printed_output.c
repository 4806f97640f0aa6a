#include "tests/support/printed_output.h"

#include <stdio.h>
#include <stdlib.h>

struct output output;
char *printed;
size_t printed_bytes;

static void open_output(void)
{
    output = (struct output){.stream = open_memstream(&printed, &printed_bytes)};
    ck_assert_ptr_nonnull(output.stream);
}

static void close_output(void)
{
    fclose(output.stream);
    free(printed);
}

void printed_output_case_add(TCase *tcase)
{
    tcase_add_checked_fixture(tcase, open_output, close_output);
}

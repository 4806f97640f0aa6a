/*
 * microbench: what one call of each layer costs: instructions, which repeat, and nanoseconds of
 * CPU, which do not. One CSV row a piece on stdout.
 *
 *   microbench [--calls N] [PIECE...]    default: 200000 calls, all pieces
 *   microbench --list                    their names, each with the calls it is measured with
 *
 * Instructions are empty where the CPU does not count them for us (a virtual machine without such
 * counters, kernel.perf_event_paranoid above 2); experiments/microbench then has Callgrind count
 * them.
 */
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/text/parse.h"
#include "tests/bench/instructions.h"
#include "tests/bench/pieces.h"

#define DEFAULT_CALLS 200000
#define MAX_CALLS     100000000
/* A multiple of every message's operations, and enough to warm up what is small. */
#define ROUND_CALLS   1600

uint64_t piece_sink;

static const struct piece *const tables[] = {wire_pieces, store_pieces, ends_pieces, client_pieces};

const void *piece_key(uint64_t number)
{
    static uint64_t keys[4][PIECE_KEY_BYTES / sizeof(uint64_t)];
    static unsigned next;
    uint64_t *key = keys[next++ % 4];
    key[0] = number * 0x9e3779b97f4a7c15u; /* odd: no two are equal */
    key[1] = ~key[0];
    return key;
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t calls_of(const struct piece *piece, uint64_t wanted)
{
    uint64_t most = piece->max_calls > 0 ? piece->max_calls - ROUND_CALLS : MAX_CALLS;
    uint64_t calls = wanted < most ? wanted : most;
    return calls < ROUND_CALLS ? ROUND_CALLS : calls / ROUND_CALLS * ROUND_CALLS;
}

static void measure(const struct piece *piece, uint64_t wanted)
{
    uint64_t calls = calls_of(piece, wanted);
    if (piece->set_up)
        piece->set_up(piece->keys);
    uint64_t start_ns = thread_cpu_ns();
    instructions_begin();
    piece->run(calls);
    uint64_t count = instructions_end(piece->name);
    uint64_t cpu_ns = thread_cpu_ns() - start_ns;
    if (piece->tear_down)
        piece->tear_down();
    printf("%s,\"%s\",%" PRIu64 ",%.2f,", piece->layer, piece->name, calls,
           (double)cpu_ns / (double)calls);
    if (count > 0)
        printf("%.1f", (double)count / (double)calls);
    putchar('\n');
    fflush(stdout);
}

static bool is_wanted(const struct piece *piece, int count, char **names)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], piece->name) == 0)
            return true;
    return count == 0;
}

static uint64_t each_piece(int count, char **names, uint64_t calls, bool lists)
{
    uint64_t found = 0;
    for (size_t table = 0; table < sizeof tables / sizeof *tables; table++)
        for (const struct piece *piece = tables[table]; piece->name; piece++) {
            if (!is_wanted(piece, count, names))
                continue;
            found++;
            if (lists)
                printf("%s,\"%s\",%" PRIu64 "\n", piece->layer, piece->name,
                       calls_of(piece, calls));
            else
                measure(piece, calls);
        }
    return found;
}

int main(int argc, char **argv)
{
    uint64_t calls = DEFAULT_CALLS;
    bool lists = argc == 2 && strcmp(argv[1], "--list") == 0;
    int names = 1;
    if (argc > 2 && strcmp(argv[1], "--calls") == 0 && parse_u64(argv[2], 1, MAX_CALLS, &calls))
        names = 3;
    if (lists)
        names = 2;
    if (names < argc && argv[names][0] == '-')
        errx(2, "usage: microbench [--calls N] [PIECE...] | --list");
    if (!lists) {
        instructions_open();
        puts("layer,piece,calls,cpu_ns_per_call,instructions_per_call");
    }
    if (each_piece(argc - names, argv + names, calls, lists) == 0)
        errx(2, "no such piece: microbench --list names them");
    instructions_close();
    return 0;
}

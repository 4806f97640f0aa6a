/*
 * explore: runs harnesses under many schedules, each from a seed, and tells of the first one that
 * finds something: its seed, and the shortest schedule that still finds something, with the place
 * in the code of each of its decisions.
 *
 *   explore [--list] [--schedules N] [--seconds S] [--seed FIRST] [--verbose] [--brief]
 *           [HARNESS...]
 *
 * A seed tells everything about a schedule: --seed N --schedules 1 repeats one. The exit status is
 * 0 if nothing was found, 1 if something was, 2 if it was called wrongly.
 */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/explore/explore.h"
#include "tests/explore/explored_store.h"
#include "tests/explore/fiber.h"
#include "tests/explore/machine.h"
#include "tests/explore/seeded_schedule.h"

/* A schedule takes milliseconds of CPU, and waits for the disk of a busy machine; one that takes
 * longer hangs without a step. */
#define SCHEDULE_SECONDS 300u

/* How often a schedule is run again to find a shorter one. */
#define SHORTER_TRIES 3000u

extern const struct explore_harness *const __start_explore_harnesses[];
extern const struct explore_harness *const __stop_explore_harnesses[];

static struct options {
    uint64_t schedules;
    double seconds;
    uint64_t first_seed;
    bool is_verbose; /* what the code logs is shown */
    bool is_brief;   /* no shorter schedule is looked for, which may take minutes */
} options = {.schedules = 1000};

/* What a child tells its parent, in memory that both map. */
struct explore_findings {
    uint64_t seed; /* of the schedule that runs, or has run last */
    uint64_t done;
    uint64_t steps;
    uint64_t length; /* of the schedule of seed 0 */
    uint64_t counted;
    const char *counted_noun; /* static */
    struct schedule_plan plan;
    struct schedule_result result;
};

static struct explore_findings *findings;

static double seconds_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Seed 0 is the schedule without a decision; the others take turns. */
static struct schedule_plan plan_of(uint64_t seed, uint64_t length)
{
    struct schedule_plan plan = {.seed = seed, .length = length, .depth = 1};
    if (seed == 0)
        return plan;
    plan.strategy = seed % 3 == 0 ? STRATEGY_RANDOM : STRATEGY_PCT;
    plan.depth = 2 + (unsigned)(seed / 3 % 4);
    plan.delays_stores = seed % 4 == 0;
    return plan;
}

static const char *strategy_text(const struct schedule_plan *plan)
{
    static char text[64];
    if (plan->strategy == STRATEGY_PCT)
        snprintf(text, sizeof text, "PCT, depth %u%s", plan->depth,
                 plan->delays_stores ? ", stores delayed" : "");
    else
        snprintf(text, sizeof text, "random walk%s", plan->delays_stores ? ", stores delayed" : "");
    return text;
}

static void run_plan(const struct explore_harness *harness, const struct schedule_plan *plan)
{
    alarm(SCHEDULE_SECONDS);
    findings->plan = *plan;
    findings->plan.most_still_ms = harness->most_still_ms;
    findings->plan.delays_stores &= !harness->stores_in_order;
    findings->plan.files_in_parts = harness->files_in_parts;
    schedule_run(&findings->plan, harness->run, &findings->result);
    machine_end();
    findings->steps += findings->result.steps;
}

/* Runs `work` in a child. False: something was found, which findings->result has. */
static bool in_child(void (*work)(const struct explore_harness *, const void *),
                     const struct explore_harness *harness, const void *argument)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        err(2, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!options.is_verbose && !freopen("/dev/null", "w", stderr))
            err(2, "/dev/null");
        work(harness, argument);
        _exit(findings->result.failed ? 1 : 0);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            err(2, "waitpid");
    explore_remove_directories(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status) || WEXITSTATUS(status) != 1) {
        findings->result.failed = true;
        snprintf(findings->result.text, sizeof findings->result.text, "the code ended by %s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an exit of its own");
    }
    return false;
}

/* What the code sets up once in a process is set up by a schedule before, whose steps are always
 * the same. */
static void warm_up(const struct explore_harness *harness)
{
    struct schedule_plan plain = plan_of(0, 1000);
    run_plan(harness, &plain);
}

/* A schedule in a process of its own, after which nothing is left. False: it found something. */
static bool run_forked(const struct explore_harness *harness, const struct schedule_plan *plan)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run_plan(harness, plan);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    explore_remove_directories(child);
    if (status != 0) {
        findings->result.failed = true;
        snprintf(findings->result.text, sizeof findings->result.text, "the code ended by %s",
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an exit of its own");
    }
    return !findings->result.failed;
}

static void run_one(const struct explore_harness *harness, const void *plan)
{
    warm_up(harness);
    if (harness->in_a_process)
        run_forked(harness, plan);
    else
        run_plan(harness, plan);
}

static void run_many(const struct explore_harness *harness, const void *until)
{
    double until_s = *(const double *)until;
    unsigned done_here = 0;
    warm_up(harness);
    uint64_t last = options.first_seed + options.schedules;
    for (uint64_t seed = options.first_seed + findings->done;
         seed < last && (until_s == 0 || seconds_now() < until_s); seed++) {
        struct schedule_plan plan = plan_of(seed, findings->length);
        findings->seed = seed;
        if (harness->in_a_process)
            run_forked(harness, &plan);
        else
            run_plan(harness, &plan);
        findings->done++;
        if (findings->result.failed)
            return;
        if (harness->most_in_a_process != 0 && ++done_here == harness->most_in_a_process)
            return;
    }
}

void explore_count(uint64_t more, const char *noun)
{
    findings->counted += more;
    findings->counted_noun = noun;
}

void explore_branch(void (*run)(void *), void *argument)
{
    struct schedule_result *result = &findings->result;
    size_t decisions = result->decision_count, story_bytes = result->story_bytes;
    char text[SCHEDULE_TEXT_BYTES];
    int status = 0;
    pid_t child = fork();
    if (child < 0)
        schedule_fail("fork: %s", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(SCHEDULE_SECONDS);
        run(argument);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    alarm(SCHEDULE_SECONDS);
    if (status != 0 && !result->failed)
        schedule_fail("the code ended by %s in a branch",
                      WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "an exit of its own");
    if (status != 0) {
        memcpy(text, result->text, sizeof text);
        schedule_fail("%s", text);
    }
    result->decision_count = decisions;
    result->story_bytes = story_bytes;
    result->story[story_bytes] = '\0';
}

/* The list without the decisions from `from` on, `count` of them. */
static size_t leave_out(const struct decision *list, size_t list_count, size_t from, size_t count,
                        struct decision *shorter)
{
    size_t kept = 0;
    for (size_t i = 0; i < list_count; i++)
        if (i < from || i >= from + count)
            shorter[kept++] = list[i];
    return kept;
}

/* Tries lists with fewer decisions, halves first, then single ones, as long as something is found
 * (Zeller, Hildebrandt, "Simplifying and isolating failure-inducing input", TSE 2002). */
static size_t shorten(const struct explore_harness *harness, struct decision *list, size_t count,
                      struct schedule_plan *plan)
{
    static struct decision shorter[SCHEDULE_MAX_DECISIONS];
    unsigned tries = 0;
    plan->strategy = STRATEGY_LIST;
    plan->list = list;
    plan->list_count = count;
    if (in_child(run_one, harness, plan))
        return 0;
    plan->list = shorter;
    for (size_t piece = count > 1 ? count / 2 : 1; piece > 0; piece /= 2) {
        bool again = true;
        while (again && tries < SHORTER_TRIES) {
            again = false;
            for (size_t from = 0; from < count && tries < SHORTER_TRIES; tries++) {
                plan->list_count = leave_out(list, count, from, piece, shorter);
                if (in_child(run_one, harness, plan)) {
                    from += piece;
                    continue;
                }
                count = plan->list_count;
                memcpy(list, shorter, count * sizeof *list);
                again = piece == 1;
            }
        }
    }
    plan->list = list;
    plan->list_count = count;
    in_child(run_one, harness, plan);
    return count;
}

/* Tries fewer parts, in the same way. Other schedules of what is left may be needed to find
 * something: a few are tried. */
#define PART_TRIES 400u

static void leave_out_parts(const struct explore_harness *harness, struct schedule_plan *plan)
{
    unsigned tries = 0;
    for (unsigned piece = EXPLORE_PARTS / 2; piece > 0; piece /= 2) {
        for (unsigned from = 0; from < EXPLORE_PARTS && tries < PART_TRIES; from += piece) {
            struct schedule_plan fewer = *plan;
            unsigned before = 0;
            for (unsigned i = from; i < from + piece; i++) {
                before += !plan->lacks_part[i];
                fewer.lacks_part[i] = true;
            }
            if (before == 0)
                continue;
            tries++;
            if (!in_child(run_one, harness, &fewer))
                *plan = fewer;
        }
    }
    in_child(run_one, harness, plan);
}

static void print_place(const void *place)
{
    char command[160], line[512];
    snprintf(command, sizeof command, "addr2line -e /proc/%ld/exe -s -f -p 0x%lx 2>&1",
             (long)getpid(), (unsigned long)(uintptr_t)place - 1);
    FILE *pipe = place ? popen(command, "r") : NULL;
    if (pipe && fgets(line, sizeof line, pipe))
        fputs(line, stdout);
    else
        puts("?");
    if (pipe)
        pclose(pipe);
}

static void print_decisions(const struct decision *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        printf("  thread %" PRIu32 " step %" PRIu64 ": ", list[i].thread, list[i].at);
        if (list[i].kind == DECIDED_THREAD)
            printf("thread %" PRIu32 " goes on%s at ", list[i].next,
                   list[i].waits ? " (it waits)" : "");
        else if (list[i].kind == DECIDED_CLOCK)
            printf("the clock jumps at ");
        else if (list[i].kind == DECIDED_STILL)
            printf("it stands still at ");
        else if (list[i].kind == DECIDED_STORE)
            printf("a store of thread %" PRIu32 " is seen at ", list[i].next % FIBERS_MAX);
        else
            printf("process %" PRIu32 " is %s at ", list[i].next,
                   list[i].kind == DECIDED_KILL ? "killed" : "stopped");
        print_place(list[i].place);
    }
}

static void print_waits(const struct schedule_result *result)
{
    for (unsigned i = 0; i < SCHEDULE_MAX_THREADS; i++)
        if (result->waits_at[i]) {
            printf("  thread %u waits at ", i);
            print_place(result->waits_at[i]);
        }
}

static void tell(const struct explore_harness *harness)
{
    static struct decision list[SCHEDULE_MAX_DECISIONS];
    static char first_story[SCHEDULE_STORY_BYTES];
    struct schedule_plan plan = findings->plan;
    printf("fail %s: seed %" PRIu64 " (%s): %s\n", harness->name, findings->seed,
           strategy_text(&plan), findings->result.text);
    if (findings->done == 0)
        fputs("  in the first schedule; ", stdout);
    else
        printf("  after %" PRIu64 " schedules; ", findings->done);
    printf("%s --seed %" PRIu64 " --schedules 1 %s repeats it\n", program_invocation_short_name,
           findings->seed, harness->name);
    if (options.is_brief)
        return;
    if (findings->result.story_bytes > 0) {
        memcpy(first_story, findings->result.story, sizeof first_story);
        leave_out_parts(harness, &plan);
    }
    if (findings->result.has_too_many) {
        printf("  its decisions are more than %u:\n", SCHEDULE_MAX_DECISIONS);
        fputs(first_story, stdout);
        return;
    }
    size_t count = findings->result.decision_count;
    memcpy(list, findings->result.decisions, count * sizeof *list);
    size_t shortest = shorten(harness, list, count, &plan);
    if (shortest == 0 && findings->result.failed == false) {
        printf("  its list of %zu decisions does not find it again:\n", count);
        print_decisions(findings->result.decisions, findings->result.decision_count);
        fputs(first_story, stdout);
        return;
    }
    if (shortest == 0)
        printf("  it takes no decision of the scheduler: %s\n", findings->result.text);
    else
        printf("  shortest schedule: %zu of %zu decisions: %s\n", shortest, count,
               findings->result.text);
    print_decisions(list, shortest);
    fputs(findings->result.story, stdout);
    print_waits(&findings->result);
}

/* False: something was found. */
static bool explore(const struct explore_harness *harness)
{
    memset(findings, 0, sizeof *findings);
    double began = seconds_now();
    double until = options.seconds > 0 ? began + options.seconds : 0;
    struct schedule_plan plain = plan_of(0, 1000);
    bool sound = in_child(run_one, harness, &plain);
    findings->length = findings->result.steps;
    findings->steps = findings->counted = 0;
    uint64_t before;
    do { /* a child ends early where schedules leave something behind */
        before = findings->done;
        sound = sound && in_child(run_many, harness, &until);
    } while (sound && findings->done > before);
    double took = seconds_now() - began;
    if (!sound) {
        tell(harness);
        return false;
    }
    printf("pass %s: %" PRIu64 " schedules in %.1f s, %.0f a second, %" PRIu64 " steps each",
           harness->name, findings->done, took, (double)findings->done / took,
           findings->steps / (findings->done ? findings->done : 1));
    if (findings->counted_noun)
        printf(", %" PRIu64 " %s", findings->counted, findings->counted_noun);
    puts("");
    return true;
}

static void list_harnesses(void)
{
    for (const struct explore_harness *const *at = __start_explore_harnesses;
         at < __stop_explore_harnesses; at++)
        printf("%-20s %s\n", (*at)->name, (*at)->invariant);
}

static bool is_asked_for(const char *name, char **names)
{
    if (!*names)
        return true;
    for (; *names; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

static char **parse_options(int count, char **words)
{
    static const struct option known[] = {{"list", no_argument, NULL, 'l'},
                                          {"schedules", required_argument, NULL, 'n'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"seed", required_argument, NULL, 'S'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"brief", no_argument, NULL, 'b'},
                                          {NULL, 0, NULL, 0}};
    int letter;
    while ((letter = getopt_long(count, words, "", known, NULL)) != -1) {
        switch (letter) {
        case 'l':
            list_harnesses();
            exit(0);
        case 'n':
            options.schedules = strtoull(optarg, NULL, 10);
            break;
        case 's':
            options.seconds = strtod(optarg, NULL);
            options.schedules = UINT64_MAX / 2;
            break;
        case 'S':
            options.first_seed = strtoull(optarg, NULL, 10);
            break;
        case 'v':
            options.is_verbose = true;
            break;
        case 'b':
            options.is_brief = true;
            break;
        default:
            exit(2);
        }
    }
    return words + optind;
}

int main(int count, char **words)
{
    /* Addresses are the same in each run, and so is what depends on them. */
    int persona = personality(UINT32_MAX);
    if (persona >= 0 && !(persona & ADDR_NO_RANDOMIZE) &&
        personality((unsigned long)persona | ADDR_NO_RANDOMIZE) >= 0)
        execv("/proc/self/exe", words);
    char **names = parse_options(count, words);
    findings =
        mmap(NULL, sizeof *findings, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (findings == MAP_FAILED)
        err(2, "mmap");
    explore_remove_stale_directories();
    unsigned passed = 0, failed = 0;
    for (const struct explore_harness *const *at = __start_explore_harnesses;
         at < __stop_explore_harnesses; at++)
        if (is_asked_for((*at)->name, names)) {
            bool sound = explore(*at);
            passed += sound;
            failed += !sound;
        }
    if (passed + failed == 0)
        errx(2, "no harness has that name; --list shows all");
    printf("%u passed, %u failed\n", passed, failed);
    return failed > 0;
}

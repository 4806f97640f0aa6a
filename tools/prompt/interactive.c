#include "tools/prompt/interactive.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "tools/prompt/completion.h"
#include "clientk/program/commands/invocation.h"
#include "clientk/program/commands/transact_block.h"
#include "clientk/program/cli/interrupt.h"
#include "common/time/clock.h"
#include "common/text/parse.h"

#define HISTORY_LINES 1000
#define HISTORY_FILE  ".mqkv_history"

/* The callbacks of libedit get the prompt through EL_CLIENTDATA. */
struct prompt {
    struct cli_context *context;
    EditLine *editor;
    History *history;
    char text[80];
    char *block; /* the lines of a transaction that has begun, each with its newline; or NULL */
    size_t block_bytes;
    char history_path[512]; /* "": none */
};

static char *prompt_text(EditLine *editor)
{
    struct prompt *prompt = NULL;
    el_get(editor, EL_CLIENTDATA, &prompt);
    static char in_block[] = "... ";
    return prompt->block ? in_block : prompt->text;
}

/* Reads one character for libedit, which alone would miss a Ctrl-C that comes before it sleeps. 1,
 * or 0 at the end of input, or -1. A Ctrl-D typed while a command runs is taken by the terminal,
 * not by libedit, and read as a NUL afterwards (termios(3), EOF); libedit would insert it unseen,
 * and on a line that is not empty Ctrl-D does not leave. */
static int read_character(EditLine *editor, wchar_t *character)
{
    mbstate_t state = {0};
    (void)editor;
    for (;;) {
        char byte;
        if (!interrupt_wait_readable(STDIN_FILENO))
            return -1;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got != 1)
            return (int)got;
        if (byte == '\0')
            continue;
        size_t taken = mbrtowc(character, &byte, 1, &state);
        if (taken == (size_t)-1) /* the byte is no character of this locale: it stands for itself */
            *character = (unsigned char)byte;
        if (taken != (size_t)-2)
            return 1;
    }
}

/* Called for TAB: inserts the common prefix of all candidates, or lists them. */
static unsigned char complete_at_cursor(EditLine *editor, int key)
{
    (void)key;
    struct prompt *prompt = NULL;
    struct completion completion;
    unsigned char verdict = CC_ERROR;
    el_get(editor, EL_CLIENTDATA, &prompt);
    const LineInfo *line = el_line(editor);
    completion_find(&completion, prompt->context, line->buffer,
                    (size_t)(line->cursor - line->buffer));
    size_t common = completion_common_bytes(&completion);
    if (completion.count == 1 || common > completion.typed) {
        char *insertion = strndup(completion.candidates[0], common);
        if (insertion) {
            el_deletestr(editor, (int)completion.typed);
            el_insertstr(editor, insertion);
            if (completion.count == 1)
                el_insertstr(editor, " ");
            verdict = CC_REFRESH;
        }
        free(insertion);
    } else if (completion.count > 1) {
        fputc('\n', stdout);
        for (size_t i = 0; i < completion.count; i++)
            printf("%s  ", completion.candidates[i]);
        printf("%s\n", completion.count == COMPLETION_CANDIDATES ? "..." : "");
        fflush(stdout);
        verdict = CC_REDISPLAY;
    }
    completion_free(&completion);
    return verdict;
}

/* Opens the history. Its file is made with mode 0600: keys and values are private. */
static void open_history(struct prompt *prompt)
{
    HistEvent event;
    const char *home = getenv("HOME");
    history(prompt->history, &event, H_SETSIZE, HISTORY_LINES);
    history(prompt->history, &event, H_SETUNIQUE, 1);
    if (!home || !*home)
        return;
    int length =
        snprintf(prompt->history_path, sizeof prompt->history_path, "%s/" HISTORY_FILE, home);
    int fd = -1;
    if (length > 0 && (size_t)length < sizeof prompt->history_path)
        fd = open(prompt->history_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        prompt->history_path[0] = '\0';
        return;
    }
    if (fchmod(fd, 0600) != 0)
        prompt->history_path[0] = '\0';
    close(fd);
    if (prompt->history_path[0])
        history(prompt->history, &event, H_LOAD, prompt->history_path);
}

static bool open_prompt(struct prompt *prompt, struct cli_context *context)
{
    *prompt = (struct prompt){.context = context};
    snprintf(prompt->text, sizeof prompt->text, "%.64s> ", context->global.queue);
    prompt->editor = el_init("clientk", stdin, stdout, stderr);
    prompt->history = history_init();
    if (!prompt->editor || !prompt->history)
        return false;
    el_set(prompt->editor, EL_CLIENTDATA, prompt);
    el_set(prompt->editor, EL_PROMPT, prompt_text);
    el_wset(prompt->editor, EL_GETCFN, read_character);
    el_set(prompt->editor, EL_EDITOR, "emacs");
    el_set(prompt->editor, EL_HIST, history, prompt->history);
    el_set(prompt->editor, EL_ADDFN, "complete", "complete the word", complete_at_cursor);
    el_set(prompt->editor, EL_BIND, "^I", "complete", NULL);
    el_set(prompt->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(prompt->editor, NULL);
    open_history(prompt);
    return true;
}

static void close_prompt(struct prompt *prompt)
{
    if (prompt->editor)
        el_end(prompt->editor);
    if (prompt->history)
        history_end(prompt->history);
    free(prompt->block);
}

/* The words of a line, or of the lines of a transaction. False: what is wrong was said. */
static bool parse_prompt_line(struct line *line, const char *text, size_t size)
{
    struct kv_error error = {0};
    struct line_error wrong;
    if (transact_block_begins(text, size)) {
        if (transact_block_parse(line, text, size, &error) == KV_OK)
            return true;
        fprintf(stdout, "ERROR usage: %s\n", error.text);
        return false;
    }
    if (line_parse(line, text, size, &wrong))
        return true;
    fprintf(stdout, "ERROR usage: column %zu: %s\n", wrong.column, wrong.message);
    return false;
}

static void execute_line(struct cli_context *context, const char *text, size_t size)
{
    struct line line = {0};
    if (parse_prompt_line(&line, text, size) && line.count > 0) {
        char time[32];
        uint64_t start_ns = clock_monotonic_ns();
        invocation_run_words(context, line.words, line.count, COMMAND_PROMPT);
        if (context->show_timing)
            printf("(%s)\n", format_duration_ns(clock_monotonic_ns() - start_ns, time));
    }
    fflush(stdout);
    line_free(&line);
}

static void remember(struct prompt *prompt, const char *text)
{
    HistEvent event;
    if (text[strspn(text, " \t\r\n")] == '\0')
        return;
    history(prompt->history, &event, H_ENTER, text);
    if (prompt->history_path[0]) /* now, because the terminal may be closed later */
        history(prompt->history, &event, H_SAVE, prompt->history_path);
}

static void forget_block(struct prompt *prompt)
{
    free(prompt->block);
    prompt->block = NULL;
    prompt->block_bytes = 0;
}

/* Keeps a line of a transaction, until its last one comes: then executes it. */
static void add_to_block(struct prompt *prompt, const char *text, size_t size)
{
    char *grown = realloc(prompt->block, prompt->block_bytes + size + 1);
    if (!grown) {
        fputs("ERROR no_memory: no memory for the transaction\n", stdout);
        forget_block(prompt);
        return;
    }
    prompt->block = grown;
    memcpy(grown + prompt->block_bytes, text, size);
    prompt->block_bytes += size;
    if (transact_block_ends(text, size)) {
        execute_line(prompt->context, grown, prompt->block_bytes);
        forget_block(prompt);
    } else {
        grown[prompt->block_bytes++] = '\n';
    }
}

/* Reads and executes one line. False: the end of input, or SIGTERM. */
static bool run_prompt_line(struct prompt *prompt)
{
    int size = 0;
    interrupt_clear();
    errno = 0;
    const char *text = el_gets(prompt->editor, &size);
    if (interrupt_pending()) {
        if (!interrupt_terminated())
            fputs("^C\n", stdout);
        el_reset(prompt->editor);
        forget_block(prompt);
        return !interrupt_terminated();
    }
    if (!text || size <= 0)
        return false;
    remember(prompt, text);
    if (text[size - 1] == '\n')
        size--;
    if (prompt->block || transact_block_begins(text, (size_t)size))
        add_to_block(prompt, text, (size_t)size);
    else
        execute_line(prompt->context, text, (size_t)size);
    return true;
}

int interactive_run(struct cli_context *context)
{
    struct prompt prompt;
    context->patient = true;
    context->interactive = true;
    context->output.one_shot = false;
    if (!open_prompt(&prompt, context)) {
        close_prompt(&prompt);
        return output_failure(&context->output, NULL, KV_IO, "the terminal cannot be used");
    }
    struct kv_error error = {0};
    if (cli_connect(context, &error) == KV_OK) {
        struct clientk_info info;
        clientk_info(context->client, &info);
        printf("Connected to %s (process %u). Type help for help, Ctrl-D to leave.\n",
               context->global.queue, info.server_pid);
    } else {
        printf("%s\nCommands will try again. Type help for help, Ctrl-D to leave.\n", error.text);
    }
    interrupt_catch();
    while (!context->leave) {
        if (!run_prompt_line(&prompt)) {
            fputc('\n', stdout);
            break;
        }
    }
    interrupt_clear();
    close_prompt(&prompt);
    return EXIT_DONE;
}

int timing_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count)
{
    (void)options;
    if (count == 0)
        context->show_timing = !context->show_timing;
    else if (word_is(&operands[0], "on"))
        context->show_timing = true;
    else if (word_is(&operands[0], "off"))
        context->show_timing = false;
    else
        return output_failure(&context->output, "timing", KV_USAGE, "usage: timing [on|off]");
    struct answer answer = {.command = "timing", .text = context->show_timing ? "on" : "off"};
    return output_answer(&context->output, &answer);
}

int format_run(struct cli_context *context, const void *options, const struct word *operands,
               size_t count)
{
    (void)options;
    int format;
    if (count == 0) {
        const char *name = output_format_name((int)context->output.format);
        struct answer answer = {.command = "format",
                                .text = name,
                                .has_value = true,
                                .value = kv_slice_from_string(name)};
        return output_answer(&context->output, &answer);
    }
    if (!parse_choice(operands[0].data, output_format_name, &format))
        return output_failure(&context->output, "format", KV_USAGE,
                              "usage: format text|raw|json|csv");
    context->output.format = (enum output_format)format;
    context->output.csv_started = false;
    return EXIT_DONE;
}

int quit_run(struct cli_context *context, const void *options, const struct word *operands,
             size_t count)
{
    (void)options, (void)operands, (void)count;
    context->leave = true;
    return EXIT_DONE;
}

#include "tools/ops/top_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "clientk/program/cli/interrupt.h"
#include "common/time/clock.h"

#define OWN_PAGE   "\033[?1049h\033[?25l" /* the alternate page, without a cursor */
#define FIRST_PAGE "\033[?25h\033[?1049l"
#define HOME       "\033[H"
#define REST_LINE  "\033[K"
#define REST_PAGE  "\033[J"

#define DEFAULT_ROWS    24u
#define DEFAULT_COLUMNS 80u

struct top_screen {
    FILE *stream;
    bool has_keys;
    struct termios before;   /* valid if has_keys */
    struct sigaction resize; /* the handler of SIGWINCH before */
};

static volatile sig_atomic_t resized;

static void note_resize(int signal_number)
{
    (void)signal_number;
    resized = 1;
}

/* Makes the terminal give single keys; called again after a stop (Ctrl-Z), when the shell has
 * changed it. */
static void want_keys(const struct top_screen *screen)
{
    struct termios raw = screen->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

struct top_screen *top_screen_begin(FILE *stream)
{
    struct top_screen *screen = calloc(1, sizeof *screen);
    if (!screen)
        return NULL;
    struct sigaction action = {.sa_handler = note_resize}; /* without SA_RESTART: waits end */
    screen->stream = stream;
    screen->has_keys = tcgetattr(STDIN_FILENO, &screen->before) == 0;
    if (screen->has_keys)
        want_keys(screen);
    sigaction(SIGWINCH, &action, &screen->resize);
    fputs(OWN_PAGE, stream);
    return screen;
}

void top_screen_end(struct top_screen *screen)
{
    if (!screen)
        return;
    fputs(FIRST_PAGE, screen->stream);
    fflush(screen->stream);
    if (screen->has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
    sigaction(SIGWINCH, &screen->resize, NULL);
    free(screen);
}

static struct winsize terminal_size_of(const struct top_screen *screen)
{
    struct winsize size = {0};
    if (ioctl(fileno(screen->stream), TIOCGWINSZ, &size) != 0 || size.ws_row == 0 ||
        size.ws_col == 0)
        return (struct winsize){.ws_row = DEFAULT_ROWS, .ws_col = DEFAULT_COLUMNS};
    return size;
}

size_t top_screen_rows(const struct top_screen *screen)
{
    return terminal_size_of(screen).ws_row;
}

void top_screen_show(struct top_screen *screen, const char *text)
{
    struct winsize size = terminal_size_of(screen);
    fputs(HOME, screen->stream);
    for (unsigned row = 0; *text && row < size.ws_row; row++) {
        size_t length = strcspn(text, "\n");
        int shown = (int)(length < size.ws_col ? length : size.ws_col);
        fprintf(screen->stream, "%s%.*s" REST_LINE, row > 0 ? "\r\n" : "", shown, text);
        text += length + (text[length] == '\n');
    }
    fputs(REST_PAGE, screen->stream);
    fflush(screen->stream);
}

/* Returns the milliseconds from now until then, rounded up. */
static int milliseconds_until(uint64_t until_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    return until_ns > now_ns ? (int)((until_ns - now_ns) / 1000000 + 1) : 0;
}

enum top_event top_screen_wait(struct top_screen *screen, uint64_t until_ns, char *key)
{
    for (;;) {
        struct pollfd input = {screen->has_keys ? STDIN_FILENO : -1, POLLIN, 0};
        if (screen->has_keys)
            want_keys(screen);
        int ready = poll(&input, 1, milliseconds_until(until_ns));
        if (interrupt_pending())
            return TOP_INTERRUPTED;
        if (resized) {
            resized = 0;
            return TOP_RESIZED;
        }
        if (ready > 0 && read(STDIN_FILENO, key, 1) == 1)
            return TOP_KEY;
        if (ready > 0)
            screen->has_keys = false; /* the terminal is gone */
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return TOP_TIME;
    }
}

"""How a program ends."""

import os
import signal
import sys


def run(main):
    """Ends the process with what main returns. Where nobody reads standard output any more (`|
    head`), it ends as Unix tools do: without a word, by SIGPIPE, once what main has open is cleaned
    up."""
    try:
        try:
            status = main()
        except SystemExit as end:  # argparse's
            status = end.code
        sys.stdout.flush()
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    sys.exit(status)

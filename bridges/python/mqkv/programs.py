"""The programs that a wheel carries: serverk, clientk, kvcheck and kresp by their names, as pip
installs them."""

import os
import pathlib
import signal
import sys

__all__ = ["find"]


def find(name: str) -> str:
    """Where the package has the program; there may be none."""
    return str(pathlib.Path(__file__).resolve().parent / "bin" / name)


def _execute(name: str) -> None:
    """Becomes the program, which gets the signals that Python ignores as others have them."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(find(name), [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {find(name)}: {error.strerror}")


def serverk() -> None:
    """The daemon."""
    _execute("serverk")


def clientk() -> None:
    """The client for shells."""
    _execute("clientk")


def kvcheck() -> None:
    """The checker of stores."""
    _execute("kvcheck")


def kresp() -> None:
    """The bridge for clients of Redis."""
    _execute("kresp")

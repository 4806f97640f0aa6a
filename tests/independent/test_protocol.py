#!/usr/bin/env python3
"""Checks every section of docs/PROTOCOL.md with a client that was written from it alone.

    test_protocol.py SERVERK NAME DIRECTORY LOG [--only SECTION,...] [-- OPTION...]

starts SERVERK with the options, and stops it at the end. Exit status 1 if a check failed.
"""
import argparse
import importlib
import sys

import checks
from daemon import Daemon

for chapter in ("sessions", "rings", "requests", "operations"):
    importlib.import_module(f"protocol_{chapter}")  # registers its sections


def main():
    arguments = sys.argv[1:]
    options = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser()
    for name in ("serverk", "queue", "directory", "log"):
        parser.add_argument(name)
    parser.add_argument("--only", default="")
    wanted = parser.parse_args(arguments)
    server = Daemon(wanted.serverk, wanted.queue, wanted.directory, wanted.log)
    server.start(*options)
    status = checks.run(server, [prefix for prefix in wanted.only.split(",") if prefix])
    if server.stop() != 0:
        checks.check("serverk stops with status 0", False, server.log_end())
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

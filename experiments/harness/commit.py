"""Which commit the tree is of: told by git, by MQKV_COMMIT, or by the file of a distribution."""

import os
import pathlib
import re
import subprocess

# `git archive` (make dist) puts the commit here, into the first line; in a working tree it is a
# placeholder.
FILE = pathlib.PurePath("packaging/COMMIT")

HASH = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def facts(repository):
    """commit, dirty (do tracked files differ from it?) and, if not git, commit_from: who told.
    Unknown is 'unknown'."""
    commit = _of_git(repository)
    if commit:
        return {"commit": commit, "dirty": _dirty(repository)}
    for told, origin in (
        (os.environ.get("MQKV_COMMIT", ""), "MQKV_COMMIT"),
        (_of_file(repository / FILE), str(FILE)),
    ):
        if HASH.fullmatch(told.strip()):
            return {"commit": told.strip(), "dirty": "unknown", "commit_from": origin}
    return {"commit": "unknown", "dirty": "unknown"}


def _git(repository, *command):
    """None: git is not there, or refuses. A tree is taken also if it is another user's, as where a
    study runs as a user of its own; what its configuration would start is switched off."""
    safe = ["-c", "safe.directory=*", "-c", "core.fsmonitor=false"]
    try:
        done = subprocess.run(
            ["git", *safe, "-C", str(repository), *command],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _of_git(repository):
    """A tree that was unpacked inside of another repository is not that one's commit."""
    top = _git(repository, "rev-parse", "--show-toplevel")
    if not top or pathlib.Path(top).resolve() != pathlib.Path(repository).resolve():
        return None
    return _git(repository, "rev-parse", "HEAD")


def _dirty(repository):
    """Results and pictures do not count."""
    command = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--", "."]
    command += [":!experiments/results", ":!plots/*.svg", ":!plots/*.png"]
    changed = _git(repository, *command)
    return "unknown" if changed is None else bool(changed)


def _of_file(path):
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return ""

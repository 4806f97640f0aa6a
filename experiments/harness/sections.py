"""The sections of a study.conf, read with errors that name file, line, section and key.

What was asked for is noted: a section or a key that nobody has asked for is a mistake of whoever
wrote it (check_all_known).
"""

import configparser
import difflib
import math
import re

from harness import HarnessError


class Sections:
    def __init__(self, path):
        self.path = path
        self.asked = {}  # section -> the keys of it that may be there
        self.parser = configparser.ConfigParser(
            interpolation=None, delimiters=("=",), inline_comment_prefixes=("#",)
        )
        try:
            with open(path, encoding="utf-8") as file:
                self.text = file.read()
            self.parser.read_string(self.text, str(path))
        except FileNotFoundError as error:
            raise HarnessError(
                f"there is no study {path}: `experiments/run --list` lists those of experiments/; "
                "another is the path of its folder"
            ) from error
        except OSError as error:
            raise HarnessError(f"cannot read the study: {error}") from error
        except (configparser.Error, UnicodeDecodeError) as error:
            raise HarnessError(f"{path}: {error}") from error

    def has(self, section):
        self.asked.setdefault(section, set())
        return self.parser.has_section(section)

    def _ask(self, section, key):
        self.asked.setdefault(section, set()).add(key.lower())

    def get(self, section, key, default):
        self._ask(section, key)
        text = self.parser.get(section, key, fallback=default)
        return " ".join(text.split())  # a value may be folded over several lines

    def lines(self, section, key):
        """The value line by line, without empty ones."""
        self._ask(section, key)
        text = self.parser.get(section, key, fallback="")
        return [" ".join(line.split()) for line in text.splitlines() if line.strip()]

    def need(self, section, key):
        text = self.get(section, key, "")
        if not text:
            raise HarnessError(f"{self.where(section)}: [{section}] needs '{key} = ...'")
        return text

    def choice(self, section, key, known, default):
        text = self.get(section, key, default)
        if text not in known:
            raise HarnessError(
                f"{self.where(section, key)}: [{section}] {key} = {text}: one of"
                f" {', '.join(known)} is needed"
            )
        return text

    def number(self, section, key, kind, least, default=None):
        text = self.need(section, key) if default is None else self.get(section, key, str(default))
        try:
            number = kind(text)
        except ValueError:
            number = least - 1
        if not number >= least:
            raise HarnessError(
                f"{self.where(section, key)}: [{section}] {key} = {text}: a number >= {least}"
                " is needed"
            )
        return number

    def items(self, section, but=()):
        """The keys of a section and their values; none if there is no such section."""
        for key in but:
            self._ask(section, key)
        if not self.has(section):
            return {}
        keys = [key for key in self.parser[section] if key not in but]
        for key in keys:
            self._ask(section, key)
        return {key: self.get(section, key, "") for key in keys}

    def named(self, kind):
        """Sections "[kind NAME]" as (NAME, section)."""
        prefix = kind + " "
        found = [
            (s[len(prefix) :].strip(), s) for s in self.parser.sections() if s.startswith(prefix)
        ]
        for _, section in found:
            self.asked.setdefault(section, set())
        return found

    def error(self, section, key, why):
        return HarnessError(f"{self.where(section, key)}: [{section}] {key}: {why}")

    def where(self, section, key=None):
        """FILE:LINE of the section, or of a key in it; FILE if it is not there."""
        inside, at = False, None
        for number, line in enumerate(self.text.splitlines(), 1):
            heading = re.match(r"\[(.*)\]", line)
            if heading:
                inside = heading[1] == section
                at = number if inside and at is None else at
            elif inside and key and re.match(re.escape(key) + r"\s*=", line, re.IGNORECASE):
                return f"{self.path}:{number}"
        return f"{self.path}:{at}" if at else str(self.path)

    def check_all_known(self):
        """After everything was asked for: nothing else may be there."""
        for section in self.parser.sections():
            if section not in self.asked:
                raise HarnessError(
                    f"{self.where(section)}: unknown section [{section}]"
                    + _advice(section, self.asked)
                )
            for key in self.parser[section]:
                if key not in self.asked[section]:
                    raise HarnessError(
                        f"{self.where(section, key)}: [{section}] has no key '{key}'"
                        + _advice(key, self.asked[section])
                    )


def _advice(name, known):
    near = difflib.get_close_matches(name, known, 1)
    return f"; is '{near[0]}' meant?" if near else f" (known: {', '.join(sorted(known))})"


def is_number(text):
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False

"""The sections of a study.conf, read with errors that name file, section and key."""

import configparser

from harness import HarnessError


class Sections:
    def __init__(self, path):
        self.path = path
        self.parser = configparser.ConfigParser(
            interpolation=None, delimiters=("=",), inline_comment_prefixes=("#",)
        )
        try:
            with open(path, encoding="utf-8") as file:
                self.parser.read_file(file)
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
        return self.parser.has_section(section)

    def get(self, section, key, default):
        text = self.parser.get(section, key, fallback=default)
        return " ".join(text.split())  # a value may be folded over several lines

    def lines(self, section, key):
        """The value line by line, without empty ones."""
        text = self.parser.get(section, key, fallback="")
        return [" ".join(line.split()) for line in text.splitlines() if line.strip()]

    def need(self, section, key):
        text = self.get(section, key, "")
        if not text:
            raise HarnessError(f"{self.path}: [{section}] needs '{key} = ...'")
        return text

    def choice(self, section, key, known, default):
        text = self.get(section, key, default)
        if text not in known:
            raise HarnessError(
                f"{self.path}: [{section}] {key} = {text}: one of {', '.join(known)} is needed"
            )
        return text

    def number(self, section, key, kind, least):
        text = self.need(section, key)
        try:
            number = kind(text)
        except ValueError:
            number = least - 1
        if not number >= least:
            raise HarnessError(
                f"{self.path}: [{section}] {key} = {text}: a number >= {least} is needed"
            )
        return number

    def items(self, section, but=()):
        """The keys of a section and their values; none if there is no such section."""
        if not self.has(section):
            return {}
        keys = [key for key in self.parser[section] if key not in but]
        return {key: self.get(section, key, "") for key in keys}

    def named(self, kind):
        """Sections "[kind NAME]" as (NAME, section)."""
        prefix = kind + " "
        return [
            (s[len(prefix) :].strip(), s) for s in self.parser.sections() if s.startswith(prefix)
        ]

    def error(self, section, key, why):
        return HarnessError(f"{self.path}: [{section}] {key}: {why}")

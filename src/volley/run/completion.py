"""The shell completion script: shtab generates it from the same declarations as the parser."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import shtab

from volley.run.commandline import Command, add_option


def script(commands: Sequence[Command], shell: str, names: Mapping[str, Sequence[str]]) -> str:
    """Return the script for one shell: ``bash``, ``zsh``, ``fish`` or ``tcsh``.

    Args:
        commands: those of ``volley --help``, and ``volley`` itself, whose name is empty.
        names: the values that are known only now, by the names of options and arguments.
    """
    root = argparse.ArgumentParser(prog="volley")
    parsers = root.add_subparsers()
    for command in commands:
        summary = " ".join(command.help.split("\n\n")[0].split())
        titles = (command.name, *command.aliases) if command.name else ()
        for parser in [parsers.add_parser(title, help=summary) for title in titles] or [root]:
            for each in command.declared():
                action = add_option(parser, each)
                action.help = each.help.replace("%", "%%")  # argparse formats it
                if found := getattr(each.read, "values", ()) or names.get(each.name):
                    action.choices = list(found)
                elif "FILE" in each.metavar or "RECORDS" in each.metavar:
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
    return shtab.complete(root, shell)

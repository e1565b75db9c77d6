"""The shell completion script: shtab generates it from the same declarations as the parser."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import shtab

from volley.run.commandline import Command, add_option


def script(commands: Sequence[Command], shell: str) -> str:
    """Return the script for one shell.

    Args:
        commands: the commands of ``volley --help``, and ``volley`` itself, whose name is empty.
        shell: ``bash``, ``zsh``, ``fish`` or ``tcsh``.
    """
    root = argparse.ArgumentParser(prog="volley")
    names = root.add_subparsers()
    for command in commands:
        summary = " ".join(command.help.split("\n\n")[0].split())
        titles = (command.name, *command.aliases) if command.name else ()
        for parser in [names.add_parser(title, help=summary) for title in titles] or [root]:
            for each in command.declared():
                action = add_option(parser, each)
                action.help = each.option.help
                if "|" in each.option.metavar:
                    action.choices = each.option.metavar.split("|")
                elif each.option.metavar == "FILE":
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
    return shtab.complete(root, shell)

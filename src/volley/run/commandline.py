"""From a dataclass of options to a command: its parser, its help, and an instance of the dataclass.

Each field of an :class:`Options` class is declared once, with :func:`option`, :func:`flag` or :func:`argument`: how it
is written, its help, its panel, its default and the function that reads it.  :func:`group` puts one Options class into
another.  An instance knows in ``given`` which of its fields the command line set.  The parser is argparse: it takes a
sixth of the time that Typer and Cyclopts take to load (docs/decisions).
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from volley.errors import UserError
from volley.text import escape_controls, join_words

Reader = Callable[[str, Sequence[str]], Any]
"""From the name of an option and the words that were given for it to its value; raises UserError."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The base of every dataclass of options."""

    given: frozenset[str] = frozenset()
    """Names of the fields that the command line set."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """How one field is written on the command line."""

    flags: tuple[str, ...] = ()
    """``("--sizes", "-s")``; empty: the field's name with dashes."""
    help: str = ""
    panel: str = ""
    metavar: str = ""
    read: Reader | None = None
    """``None``: a flag, which takes no word."""
    shown: str | None = None
    """What the help says of the default; ``None``: the default itself."""
    words: int = 1
    repeat: bool = False
    """May be given several times; ``read`` gets all words."""
    positional: str | None = None
    """argparse's ``nargs`` of an argument that is no option."""

    def named(self, field_name: str) -> Option:
        """Return it with its flags, where those follow from the field's name."""
        if self.flags:
            return self
        return dataclasses.replace(self, flags=(f"--{field_name.replace('_', '-')}",))

    @property
    def name(self) -> str:
        """The long form, e.g. ``--sizes``."""
        return self.flags[0] if self.flags else self.metavar


def option(*flags: str, read: Reader, default: Any = None, **about: Any) -> Any:
    """Declare a field that takes words: ``sizes: tuple[int, ...] = option("--sizes", "-s", read=…, help=…)``."""
    return field(default=default, metadata={"option": Option(flags=flags, read=read, **about)})


def flag(*flags: str, default: bool = False, **about: Any) -> Any:
    """Declare a field that is switched on by its option, or off by ``--no-…`` where it is on by default."""
    return field(default=default, metadata={"option": Option(flags=flags, **about)})


def argument(metavar: str, *, positional: str = "+", help: str = "", default: Any = ()) -> Any:  # noqa: A002
    """Declare the words that belong to no option; ``positional`` is argparse's ``nargs``."""
    own = Option(metavar=metavar, positional=positional, help=help, read=lambda _, words: tuple(words))
    return field(default=default, metadata={"option": own})


def group(
    options: type[Options], *, only: Sequence[str] = (), without: Sequence[str] = (), **changes: Mapping[str, Any]
) -> Any:
    """Declare a field that holds another Options class, whose options become options of the command.

    Args:
        options: the class.
        only: its fields that the command has; the others keep their defaults.
        without: the same, by those that it has not.
        changes: by field, what is different in this command: ``default`` and what :class:`Option` has.
    """
    defaults = {name: change["default"] for name, change in changes.items() if "default" in change}
    here = {
        each.name: dataclasses.replace(
            each.metadata["option"],
            **{key: value for key, value in changes.get(each.name, {}).items() if key != "default"},
        )
        for each in dataclasses.fields(options)
        if "option" in each.metadata and each.name not in without and (not only or each.name in only)
    }
    own = {"group": options, "options": here, "defaults": defaults}
    return field(default_factory=lambda: options(**defaults), metadata=own)


# ------------------------------------------------------------------------------------------- what is declared


@dataclass(frozen=True)
class Declared:
    """An option of a command: where its value goes, how it is written, what it is otherwise."""

    place: str
    """``sizes``, or ``job.ranks`` of a group."""
    option: Option
    default: Any

    @property
    def default_text(self) -> str:
        """What the help says of the default."""
        if self.option.shown is not None:
            return self.option.shown
        if self.default is True:
            return self.option.name
        if self.default is None or self.default is False or self.default == ():
            return ""
        if isinstance(self.default, tuple):
            return " ".join(map(str, self.default))
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)


def declared(options: type[Options]) -> Iterator[Declared]:
    """Yield the options of a class, those of its groups included, in their order."""
    for each in dataclasses.fields(options):
        own = each.metadata
        if "group" in own:
            whole = own["group"](**own["defaults"])
            for name, known in own["options"].items():
                yield Declared(f"{each.name}.{name}", known.named(name), getattr(whole, name))
        elif "option" in own:
            known = own["option"]
            yield Declared(each.name, known if known.positional else known.named(each.name), each.default)


def _build(options: type[Options], values: Mapping[str, Any]) -> Options:
    """Make an instance from the values that were given, by place."""
    plain = {place: value for place, value in values.items() if "." not in place}
    for each in dataclasses.fields(options):
        if "group" not in each.metadata:
            continue
        start = f"{each.name}."
        inner = {place.removeprefix(start): value for place, value in values.items() if place.startswith(start)}
        mine = {**each.metadata["defaults"], **inner}
        plain[each.name] = each.metadata["group"](**mine, given=frozenset(inner))
    given = frozenset(place for place in values if "." not in place)
    return options(**plain, given=given)


def value_of(options: Any, name: str) -> Any:
    """Return the value of an option by its long form, e.g. ``--gpus``; ``None`` where there is no such option."""
    for each in declared(type(options)):
        if each.option.name == name:
            found: Any = options
            for part in each.place.split("."):
                found = getattr(found, part)
            return found
    return None


# --------------------------------------------------------------------------------------------------- commands


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command: what it is called, what it takes, what it does."""

    name: str
    help: str
    """One line, and paragraphs after it."""
    options: tuple[type[Options], ...]
    """Usually one.  Of several, the options that are given decide which is meant, and ``pick`` where they do not."""
    run: Callable[[Any], int]
    """Takes an instance and returns the exit code.  What is slow to import it imports itself."""
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    pick: Callable[[Sequence[type[Options]]], type[Options]] = lambda types: types[-1]
    joins: Callable[[Any], bool] = lambda _: False
    """Tells whether these options make the ranks of a foreign launcher engines."""

    @property
    def title(self) -> str:
        """How it is called: ``volley topo``; ``volley`` alone has no name."""
        return f"volley {self.name}".strip()

    def declared(self) -> list[Declared]:
        """Return all options, each once."""
        found: dict[str, Declared] = {}
        for options in self.options:
            for each in declared(options):
                found.setdefault(each.option.name, each)
        return list(found.values())

    def parse(self, words: Sequence[str], *, pick: bool = True) -> Any:
        """Read the words after the command's name.

        Args:
            words: of the command line.
            pick: ask ``pick`` which options are meant where the words do not tell; else the last are.

        Raises:
            UserError: naming the option, what is wrong, and the nearest valid form.
            HelpAsked: if the help is wanted.
        """
        given = self._given(words)
        suitable = [options for options in self.options if given.keys() <= _names(options)]
        if not suitable:
            raise UserError(self._conflict(given))
        found: dict[type[Options], Any] = {}
        errors: list[UserError] = []
        for options in suitable:
            try:
                found[options] = _build(options, _read(options, given))
            except UserError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        return found[self.pick(list(found)) if pick and len(found) > 1 else list(found)[-1]]

    def _given(self, words: Sequence[str]) -> dict[str, Any]:
        """Return what was given, by the option's name: a truth value of a flag, else a list of words."""
        parser = _Parser(self.title)
        parser.add_argument("-h", "--help", action=_Help, nargs=0)
        known = self.declared()
        for each in known:
            add_option(parser, each)
        namespace, others = parser.parse_known_args(list(words))
        if others:
            parser.error(_unknown(others[0], [flag for each in known for flag in each.option.flags]))
        return vars(namespace)

    def _conflict(self, given: Mapping[str, Any]) -> str:
        """Say which options do not go together."""
        first, *others = (
            [name for name in given if name not in _names(options)] or list(given) for options in reversed(self.options)
        )
        return f"{join_words(first)} and {join_words(others[0])} do not go together: leave out one or the other"


def _names(options: type[Options]) -> set[str]:
    return {each.option.name for each in declared(options)}


def _read(options: type[Options], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of what was given, by place."""
    values = {}
    for each in declared(options):
        name = each.option.name
        if name in given:
            words = given[name]
            values[each.place] = each.option.read(name, words) if each.option.read else words
    return values


class HelpAsked(Exception):  # noqa: N818  it is no error
    """The words hold ``--help``."""


class _Help(argparse.Action):
    def __call__(self, *_: Any) -> NoReturn:
        raise HelpAsked


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, and leaves what is not given out of the result."""

    def __init__(self, title: str) -> None:
        super().__init__(prog=title, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)

    def error(self, message: str) -> NoReturn:
        said = escape_controls(message).removeprefix("argument ").rstrip(".")
        said = said.replace("expected 1 argument", "a value is missing; write -X as --option=-X")
        raise UserError(f"{said}; see {self.prog} --help")


def add_option(parser: argparse.ArgumentParser, each: Declared) -> argparse.Action:
    """Let a parser of argparse know an option."""
    own = each.option
    if own.positional:
        return parser.add_argument(own.name, nargs=own.positional, metavar=own.metavar)
    if own.read is None:
        if each.default:
            parser.add_argument(f"--no-{own.name.removeprefix('--')}", dest=own.name, action="store_false")
        return parser.add_argument(*own.flags, dest=own.name, action="store_true")
    action = "extend" if own.repeat else "store"
    return parser.add_argument(*own.flags, dest=own.name, action=action, nargs=own.words, metavar=own.metavar or "X")


def _unknown(word: str, known: Sequence[str]) -> str:
    """Say what a word that nobody knows might have been."""
    if not word.startswith("-"):
        return f"unexpected word {word!r}"
    import difflib  # noqa: PLC0415  start-up: only who errs needs it

    flag_ = word.partition("=")[0]
    near = difflib.get_close_matches(flag_, known, n=1)
    return f"no such option: {flag_}{f'; did you mean {near[0]}?' if near else ''}"


# ----------------------------------------------------------------------------------------------------- the help

_WIDEST = 100
"""Columns of text that the eye follows."""
_NARROWEST = 60
_INDENT = 28
"""Where the help of an option begins."""


def written(each: Declared) -> str:
    """Return how an option is written: ``-s, --sizes SIZES``."""
    own = each.option
    if own.positional:
        return own.metavar
    flags = sorted(own.flags, key=len)
    if own.read is None:
        return ", ".join([*flags, f"--no-{own.name.removeprefix('--')}"] if each.default else flags)
    return f"{', '.join(flags)} {own.metavar}"


def panels(command: Command) -> dict[str, list[Declared]]:
    """Return the options of a command by panel."""
    found: dict[str, list[Declared]] = {}
    for each in command.declared():
        found.setdefault(each.option.panel, []).append(each)
    return found


def help_text(command: Command, commands: Sequence[Command] = (), epilog: str = "") -> str:
    """Return the help of a command as plain text; ``commands`` are those that ``volley`` alone lists."""
    import shutil  # noqa: PLC0415  start-up: only for the help
    import textwrap  # noqa: PLC0415

    width = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))

    def row(name: str, text: str) -> list[str]:
        lines = textwrap.wrap(text, width - _INDENT) or [""]
        first = [f"  {name:<{_INDENT - 4}}  {lines.pop(0)}"] if len(name) <= _INDENT - 4 else [f"  {name}"]
        return [*first, *(" " * _INDENT + line for line in lines if line)]

    positional = "".join(f" {each.option.metavar}" for each in command.declared() if each.option.positional)
    lines = [f"Usage: {command.title} [OPTIONS]{' COMMAND …' if commands else positional}", ""]
    for paragraph in command.help.strip().split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), width), ""]
    if commands:
        lines.append("Commands:")
        for each in commands:
            names = ", ".join((each.name, *each.aliases))
            lines += row(names, " ".join(each.help.strip().split("\n\n")[0].split()))
        lines.append("")
    for panel, known in panels(command).items():
        lines.append(f"{panel or 'Other'}:")
        for option_ in known:
            default = option_.default_text
            lines += row(written(option_), option_.option.help + (f" [default: {default}]" if default else ""))
        lines.append("")
    lines += ["Examples:", *(f"  {example}" for example in command.examples), ""]
    for paragraph in epilog.strip().split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), width), ""]
    return "\n".join(lines).rstrip() + "\n"

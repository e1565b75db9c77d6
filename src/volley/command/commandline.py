"""Derive a command's parser and help from a dataclass of options, and return an instance of the dataclass.

Each field of an :class:`Options` class is declared once, with :func:`option`, :func:`flag` or :func:`argument`: its
flags, help, panel, default and reader function.  :func:`group` includes one Options class in another.  The field
``given`` of an instance holds the names of the fields that the command line set.  The parser is argparse: Typer and
Cyclopts take six times as long to load (docs/decisions).
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from operator import attrgetter
from typing import Any, ClassVar, NoReturn

from volley.command import option_values
from volley.errors import MachineError, UserError
from volley.text import did_you_mean, escape_controls, grouped

_ARGUMENTS = "Arguments"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The base of every dataclass of options."""

    PANEL: ClassVar[str] = ""
    given: frozenset[str] = frozenset()
    """Names of the fields that the command line set."""
    typed: tuple[tuple[str, ...], ...] = ()
    """The given options of a command, each with its words; empty in a group."""


@dataclass(frozen=True, kw_only=True)
class Option:
    flags: tuple[str, ...] = ()
    """``("-s",)``; without a long form, that is the field's name with dashes."""
    help: str = ""
    """Without one the option is accepted, and in no list."""
    panel: str = ""
    metavar: str = ""
    read: Callable[[str, Sequence[str]], Any] | None = None
    """Takes the name of the option and its words, returns the value; raises UserError.  ``None`` for a flag."""
    shown: str | None = None
    """The text of the default in the help; ``None``: the default value."""
    words: int = 1
    repeat: bool = False
    """The option may be given several times; ``read`` gets all words."""
    positional: str | None = None
    """argparse's ``nargs`` of a positional argument; ``None`` for an option."""
    name: str = ""
    """The long form, e.g. ``--sizes``."""
    place: str = ""
    """The path of its field in the options of the command: ``sizes``, or ``job.ranks`` in a group."""
    default: Any = None

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be called: its flags; the field of positional arguments."""
        return self.flags or (self.place,)

    @property
    def no(self) -> str:
        """What sets a flag to false: ``--no-verify``."""
        return f"--no-{self.name.removeprefix('--')}"

    @property
    def several(self) -> bool:
        """Whether one word holds several values, separated by commas."""
        return getattr(self.read, "several", False)

    @property
    def default_text(self) -> str:
        if self.shown is not None:
            return self.shown
        if self.default is True:
            return self.name
        if self.default is None or self.default is False or self.default == ():
            return ""
        if isinstance(self.default, tuple):
            return " ".join(map(str, self.default))
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    def typed(self, given: Any) -> Iterator[tuple[str, ...]]:
        """Yield the option as it was given: a truth value for a flag, else a list of words."""
        if self.read is None:
            yield (self.name if given else self.no,)
        elif self.repeat:
            yield from ((self.name, word) for word in given)
        elif self.positional:
            yield from ((word,) for word in given)
        else:
            yield (self.name, *given)

    def words_of(self, value: Any) -> Iterator[str]:
        """Yield the words that give the option a value of Python: a list for several values, a truth value for a flag.

        Raises:
            UserError: the value of a flag is none, or of an option of two values no two.
        """
        if self.read is None:
            if not isinstance(value, bool):
                raise UserError(f"{self.name}: {value!r} is not True or False")
            yield from [self.name] if value else [self.no] if self.default else []
            return
        several = isinstance(value, Iterable) and not isinstance(value, str)
        values = [str(each) for each in value] if several else str(value).split() if self.words > 1 else [str(value)]
        if self.positional:
            yield from ["--", *values] if self.positional == "..." else values
        elif self.words > 1 and len(values) != self.words:
            raise UserError(f"{self.name}: {value!r} is not a list of {self.words} values")
        elif self.words > 1:
            yield from (self.name, *values)
        else:
            each_time = values if self.repeat and not self.several else [",".join(values)]
            yield from (f"{self.name}={word}" for word in each_time)  # the word may begin with a dash

    @property
    def usage(self) -> str:
        """How it is written: ``-s, --sizes SIZES``."""
        if self.positional:
            return self.metavar
        flags = sorted(self.flags, key=len)
        if self.read is None:
            return ", ".join([*flags, self.no] if self.default else flags)
        return f"{', '.join(flags)} {self.metavar}"


def option(*flags: str, read: Callable[[str, Sequence[str]], Any], default: Any = None, **about: Any) -> Any:
    """Declare an option with a value: ``sizes: tuple[int, ...] = option("-s", read=…, help=…)``.

    What the help calls the value (``metavar``) follows from the reader, where that says it.  A list is empty if it is
    not given.
    """
    own = Option(flags=flags, read=read, **{"metavar": getattr(read, "metavar", ""), **about})
    default = () if default is None and (own.repeat or own.several) else default
    return field(default=default, metadata={"option": own})


def flag(*flags: str, default: bool = False, **about: Any) -> Any:
    """Declare a flag: the option sets it to true; if the default is true, ``--no-…`` sets it to false."""
    return field(default=default, metadata={"option": Option(flags=flags, **about)})


def argument(metavar: str, *, positional: str = "+", help: str) -> Any:  # noqa: A002
    """Declare the positional arguments; ``positional`` is argparse's ``nargs``.  A ``--`` before them is none."""

    def read(_: str, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(words[1:] if words[:1] == ["--"] else words)

    own = Option(metavar=metavar, positional=positional, help=help, panel=_ARGUMENTS, read=read)
    return field(default=(), metadata={"option": own})


def group(
    options: type[Options], *, only: Sequence[str] = (), without: Sequence[str] = (), **changes: Mapping[str, Any]
) -> Any:
    """Declare a field that holds another Options class; the command gets the options of that class.

    Args:
        options: the class.
        only: the fields that become options of the command; the others keep their defaults.
        without: the fields that do not become options; an alternative to ``only``.
        changes: what differs in this command, by field name: ``default`` and fields of :class:`Option`.
    """
    defaults = {name: change["default"] for name, change in changes.items() if "default" in change}
    places = (each.place for each in declared(options) if each.place not in without)
    here = {place: changes.get(place, {}) for place in places if not only or place in only}
    own = {"group": options, "changes": here, "defaults": defaults}
    return field(default_factory=lambda: options(**defaults), metadata=own)


def declared(options: type[Options]) -> Iterator[Option]:
    """Yield the options of a class and of its groups, in the order of their fields.

    Flags, name and panel that an option does not declare are those of its field and of its class.
    """
    for each in dataclasses.fields(options):
        if own := each.metadata.get("option"):
            has_long = own.positional or any(flag_.startswith("--") for flag_ in own.flags)
            flags = own.flags if has_long else (f"--{each.name.replace('_', '-')}", *own.flags)
            about = {"flags": flags, "name": flags[0] if flags else own.metavar, "panel": own.panel or options.PANEL}
            yield dataclasses.replace(own, **about, place=each.name, default=each.default)
        if changes := each.metadata.get("changes"):
            for own in declared(each.metadata["group"]):
                if own.place in changes:
                    yield dataclasses.replace(own, place=f"{each.name}.{own.place}", **changes[own.place])


def value_of(options: Any, name: str) -> Any:
    """Return the value of an option by its long form, e.g. ``--gpus``; ``None`` if the command has no such option."""
    places = (each.place for each in declared(type(options)) if each.name == name)
    return next((attrgetter(place)(options) for place in places), None)


@dataclass(frozen=True, kw_only=True)
class Command:
    name: str
    help: str
    """One line, then paragraphs."""
    options: type[Options] | str
    """The class of its options, or its full name.  Start-up: a named class is imported for its own command only."""
    run: Callable[[Any], int]
    """Takes an instance and returns the exit code.  It imports slow modules itself."""
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    joins: Callable[[Any], bool] = lambda _: False
    """True if, with these options, the ranks that a foreign launcher started must exec the engine."""

    @property
    def title(self) -> str:
        """The command as typed: ``volley topo``, or ``volley`` for the command without a name."""
        return f"volley {self.name}".strip()

    def declared(self) -> list[Option]:
        return list(declared(load(self.options)))

    def parse(self, words: Sequence[str]) -> Any:
        options = load(self.options)
        known = list(declared(options))
        given = self._given(words, known)
        asked = [each for each in known if each.name in given]
        values = {
            each.place: each.read(each.name, given[each.name]) if each.read else given[each.name] for each in asked
        }
        direct = {place: value for place, value in values.items() if "." not in place}
        groups = {}
        for each in dataclasses.fields(options):
            if "group" in each.metadata:
                start = f"{each.name}."
                inner = {place.removeprefix(start): value for place, value in values.items() if place.startswith(start)}
                mine = {**each.metadata["defaults"], **inner}
                groups[each.name] = each.metadata["group"](**mine, given=frozenset(inner))
        typed = tuple(words for each in asked for words in each.typed(given[each.name]))
        return options(**direct, **groups, given=frozenset(direct), typed=typed)

    def words(self, values: Mapping[str, Any]) -> list[str]:
        """Return the words for values by option: ``{"sizes": [8, 64]}`` is ``--sizes=8,64``.

        The underscores of a name are the dashes of its option; ``None`` leaves it out.  An unknown name stays in the
        words, so that :meth:`parse` refuses it.
        """
        names = {name.lstrip("-").replace("-", "_"): each for each in self.declared() for name in each.names}
        known = {
            name: names.get(name) or Option(name=f"--{name.replace('_', '-')}", read=option_values.text)
            for name in values
        }
        given = [(each, values[name]) for name, each in known.items() if values[name] is not None]
        options = [word for each, value in given if not each.positional for word in each.words_of(value)]
        return [*options, *(word for each, value in given if each.positional for word in each.words_of(value))]

    def _given(self, words: Sequence[str], known: Sequence[Option]) -> dict[str, Any]:
        """Return the given ones of the known options by name: a truth value for a flag, else a list of words."""
        parser = _Parser(prog=self.title, add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
        parser.add_argument("-h", "--help", action=_Help, nargs=0)
        for each in known:
            add_option(parser, each)
        namespace, others = parser.parse_known_args(list(words))
        if others and others[0].startswith("-"):
            flag_ = others[0].partition("=")[0]
            values = {f"--{value}": each.name for each in known for value in getattr(each.read, "values", ())}
            if option_ := values.get(flag_):
                raise UnknownOptionError(flag_, self.title, f"did you mean {option_} {flag_[2:]}?")
            guess = did_you_mean(flag_, ["--help", *(flag for each in known for flag in each.flags)])
            raise UnknownOptionError(flag_, self.title, guess)
        if others:
            parser.error(f"unexpected argument {others[0]!r}{_split_list(others[0], words, known)}")
        given = vars(namespace)
        return {each.name: _of_uses(parser, each, given[each.name]) for each in known if each.name in given}


def load(named: Any) -> Any:
    """Return what a full name stands for, ``volley.batch.script.run``, imported now; anything else is returned as it
    is."""
    if not isinstance(named, str):
        return named
    module, _, own = named.rpartition(".")
    return getattr(import_module(module), own)


@dataclass(frozen=True)
class Lazy:
    """A function by its full name, imported when it is called: --help does without."""

    name: str

    def __call__(self, *arguments: Any) -> Any:
        return load(self.name)(*arguments)


class HelpAsked(Exception):  # noqa: N818  it is no error
    """The command line contains ``--help``."""


class UnknownOptionError(UserError):
    def __init__(self, flag: str, title: str, hint: str) -> None:
        """Make the message: the option, what may be meant instead, and the command whose help lists the valid ones."""
        super().__init__(" ".join(filter(None, (f"no such option: {flag};", hint, f"see {title} --help"))))
        self.flag = flag
        self.title = title
        self.hint = hint


class _Help(argparse.Action):
    def __call__(self, *_: Any) -> NoReturn:
        raise HelpAsked


class _Parser(argparse.ArgumentParser):
    """Raises an error as one sentence."""

    def error(self, message: str) -> NoReturn:
        text = escape_controls(message).removeprefix("argument ").rstrip(".")
        text = text.replace("expected 1 argument", "a value is missing (one that begins with - is written --option=-X)")
        text = re.sub(r"expected (\d+) arguments", r"\1 values are needed", text)
        text = re.sub(r"the following arguments are required: (.*)", r"\1 is missing", text)
        raise UserError(f"{text}{'' if text.endswith('?') else ';'} see {self.prog} --help")


def _of_uses(parser: argparse.ArgumentParser, own: Option, uses: Sequence[Any]) -> Any:
    """Return the words of an option, or the value of a flag; different uses are refused, of which one would be lost."""
    if own.repeat and own.read:
        return [word for words in uses for word in words]
    if not own.positional and (others := [use for use in uses if use != uses[0]]):
        both = f", {own.name} {' '.join(uses[0])} and {' '.join(others[0])}" if own.read else ""
        remedy = "separate the values by commas" if own.several else "leave one out"
        parser.error(f"{own.name} is given twice{both}: {remedy}")
    return uses if own.positional else uses[0]


def add_option(parser: argparse.ArgumentParser, own: Option) -> argparse.Action:
    if own.positional:
        return parser.add_argument(own.name, nargs=own.positional, metavar=own.metavar)
    if own.read is None:
        if own.default:
            parser.add_argument(own.no, dest=own.name, action="append_const", const=False)
        return parser.add_argument(*own.flags, dest=own.name, action="append_const", const=True)
    metavar = own.metavar or "X"
    return parser.add_argument(*own.flags, dest=own.name, action="append", nargs=own.words, metavar=metavar)


def _split_list(word: str, words: Sequence[str], known: Sequence[Option]) -> str:
    """Return what to type if an unexpected word is a value of a list: ``separate values by commas, -s 8,64k``."""
    place = list(words).index(word)
    before, value = words[max(0, place - 2) : place] if place > 1 else ("", "")
    lists = {flag for each in known if each.several for flag in each.flags}
    return f": separate values by commas, {before} {value},{word}" if before in lists else ""


_WIDEST = 100
"""Columns of text that are still easy to read."""
_NARROWEST = 60
_INDENT = 28
"""The column at which the help of an option begins."""


def panels(command: Command) -> dict[str, list[Option]]:
    """Group the options that have a help by panel, in the same order for every command."""
    places = {_ARGUMENTS: -1, "Output": 1, "Other": 2}
    found = grouped((each for each in command.declared() if each.help), lambda each: each.panel or "Other")
    return dict(sorted(found.items(), key=lambda panel: places.get(panel[0], 0)))


def help_text(command: Command, commands: Sequence[Command], epilog: str) -> str:
    """Return the help of a command as plain text; ``commands`` are listed in the help of ``volley`` itself."""
    import shutil  # noqa: PLC0415  start-up: only for the help
    from textwrap import wrap  # noqa: PLC0415

    width = max(_NARROWEST, min(shutil.get_terminal_size().columns, _WIDEST))

    def row(name: str, text: str) -> list[str]:
        short, space = len(name) <= _INDENT - 4, " " * _INDENT
        first = f"  {name}".ljust(_INDENT) if short else space
        lines = wrap(text, width, initial_indent=first, subsequent_indent=space, break_on_hyphens=False)
        return lines if short else [f"  {name}", *lines]

    def paragraphs(text: str) -> list[str]:
        parts = (" ".join(part.split()) for part in text.strip().split("\n\n"))
        return [line for part in parts for line in (*wrap(part, width, break_on_hyphens=False), "")]

    positional = "".join(f" {each.metavar}" for each in command.declared() if each.positional)
    lines = [f"Usage: {command.title} [OPTIONS]{' COMMAND …' if commands else positional}", ""]
    lines += paragraphs(command.help)
    if commands:
        lines.append("Commands:")
        for each in commands:
            lines += row(", ".join((each.name, *each.aliases)), " ".join(each.help.strip().split("\n\n")[0].split()))
        lines += ["", "The options of a command: volley COMMAND --help", ""]
    for panel, known in panels(command).items():
        lines.append(f"{panel}:")
        for own in known:
            lines += row(own.usage, own.help + (f" [default: {own.default_text}]" if own.default_text else ""))
        lines.append("")
    lines += ["Examples:", *(f"  {example}" for example in command.examples), ""]
    lines += paragraphs(epilog)
    return "\n".join(lines).rstrip() + "\n"


def completion_script(commands: Sequence[Command], shell: str, names: Mapping[str, Sequence[str]]) -> str:
    """Return the script for one shell: ``bash``, ``zsh``, ``fish`` or ``tcsh``."""
    import shtab  # noqa: PLC0415  start-up: takes as long as all other imports

    if shell not in shtab.SUPPORTED_SHELLS:
        raise MachineError(f"shtab {shtab.__version__} cannot complete for {shell}: install a newer one (fish: 1.9)")
    root = argparse.ArgumentParser(prog="volley")
    parsers = root.add_subparsers()
    for command in commands:
        summary = " ".join(command.help.split("\n\n")[0].split())
        titles = (command.name, *command.aliases) if command.name else ()
        for parser in [parsers.add_parser(title, help=summary) for title in titles] or [root]:
            for each in chain(*panels(command).values()):
                action = add_option(parser, each)
                action.help = each.help.replace("%", "%%")  # argparse formats it
                if found := getattr(each.read, "values", ()) or names.get(each.name):
                    action.choices = list(found)
                elif "FILE" in each.metavar or "RECORDS" in each.metavar:
                    named = {"bash": "_volley_records"} if "RECORDS" in each.metavar else {}
                    action.complete = {**shtab.FILE, **named}  # type: ignore[attr-defined]
    words = shlex.quote(" ".join(names.get("RECORDS", ())))
    both = f'_volley_records() {{ compgen -W {words} -- "$1"; compgen -f -- "$1"; }}'
    return shtab.complete(root, shell, preamble=both if shell == "bash" else "")

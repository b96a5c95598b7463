"""What manifest and guide share: CatalogError, checked TOML tables, files that may not leave their folder.

Every error is one sentence of the same shape: file, key, what was found, what is allowed. This module knows neither
which keys an experiment has nor what they mean.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

NAME = re.compile(r"[a-z][a-z0-9_]*")
NAME_RULE = "lower-case letters, digits and _, a letter first"

LARGEST_FILE = 1 << 20
"""Bytes of a manifest or guide that are read; a longer one is somebody else's file."""

MOST_TABLES = 1000
"""Of a kind, such as variants, or blocks of a guide."""

LARGEST_INT = 2**63 - 1
"""TOML's integers have 64 bits; tomllib reads longer ones, which nothing after it could print or store."""


_LONG_KEY = r"""(?<![A-Za-z0-9_."'-])(?:(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){100}"""
"""A dotted key of a hundred parts: tomllib's time grows with their square; a megabyte of them would take an hour."""


class CatalogError(ValueError):
    """Something in the catalog, or asked of it, is wrong. The message is one sentence."""


def printable(text: str) -> str:
    """`text` with everything escaped that a terminal would obey rather than show."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def control_in(text: str) -> re.Match[str] | None:
    """The first thing in a text of several lines that a terminal would obey: control characters but newline and tab,
    and reversals of direction."""
    # Compiled when first needed: a listing of experiments never comes here.
    return re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text)


def shown(value: object) -> str:
    """A TOML value as it stands in a sentence: short, on one line, harmless."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = printable(value)
        return f'"{text}"' if len(text) <= 60 else f'"{text[:57]}..."'
    if isinstance(value, int):
        return str(value) if abs(value) <= LARGEST_INT else "a number beyond 64 bits"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    return "a table" if isinstance(value, dict) else "a date or time"


def shown_path(path: Path) -> str:
    """A path for a sentence: relative to the working folder where it lies below it."""
    try:
        path = path.relative_to(Path.cwd())
    except (ValueError, OSError):
        pass  # elsewhere, or the working folder is gone: the whole path then
    return printable(str(path))


def closest(name: str, among: Iterable[str]) -> str | None:
    """The most similar of `among`, if one is similar at all."""
    import difflib

    matches = difflib.get_close_matches(name[:100], list(among), n=1, cutoff=0.5)
    return matches[0] if matches else None


def choice_of(name: str, among: Sequence[str]) -> str:
    """(closest: x; allowed: x, y, z), the end of a sentence about an unknown name."""
    near = closest(name, among)
    return f"({f'closest: {near}; ' if near else ''}allowed: {', '.join(among) if among else 'none'})"


def is_int(value: object) -> bool:
    """Whether this is a whole number of 64 bits (a bool is none)."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_INT


def is_number(value: object) -> bool:
    """Whether this is a finite number (a bool is none)."""
    return is_int(value) or (isinstance(value, float) and math.isfinite(value))


def is_line(value: object) -> bool:
    """Whether this is text of one line, not blank, without control characters."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def bounds(kind: str, minimum: float | None, maximum: float | None) -> str:
    """`a number` -> `a number from 1 to 8`."""
    if minimum is not None and maximum is not None:
        return f"{kind} from {minimum} to {maximum}"
    if minimum is not None:
        return f"{kind} of at least {minimum}"
    return kind if maximum is None else f"{kind} of at most {maximum}"


class Table:
    """One TOML table, whose keys are taken with their types; any key that isn't in `allowed` is an error at once.

    `place` opens every sentence (a file, with the line where there is one), `path` is the table's own dotted key.
    Taking a key without a default means that it must be there. All methods raise CatalogError.
    """

    def __init__(self, place: str, path: str, document: Mapping[str, Any], allowed: Sequence[str]) -> None:
        self.place, self.path, self._document = place, path, document
        for key in document:
            if key not in allowed:
                raise CatalogError(f"{place}: unknown key {self.key(key)} {choice_of(key, allowed)}")

    def __contains__(self, key: str) -> bool:
        return key in self._document

    def key(self, key: str) -> str:
        """The dotted path of one of this table's keys."""
        own = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else shown(key)
        return f"{self.path}.{own}" if self.path else own

    def wrong(self, key: str, allowed: str, found: str | None = None) -> CatalogError:
        """The error about `key`: what it is, and what was expected; `found` says it in other words."""
        if found is None:
            found = f"is {shown(self._document[key])}" if key in self else "is missing"
        return CatalogError(f"{self.place}: {self.key(key)} {found}, {allowed} expected")

    def raw(self, key: str) -> Any:
        """The value as TOML gave it; None where it is missing."""
        return self._document.get(key)

    def items(self) -> ItemsView[str, Any]:
        """All keys and values, as TOML gave them and in the order in which they are written."""
        return self._document.items()

    def line(self, key: str, default: str | None = None) -> str:
        """Text of one line, not blank."""
        value = self._document.get(key, default)
        if default is not None and value == default:
            return default
        if not is_line(value):
            raise self.wrong(key, "one line of text")
        return str(value)

    def text(self, key: str, default: str | None = None) -> str:
        """Text of any number of lines, not blank."""
        value = self._document.get(key, default)
        if default is not None and value == default:
            return default
        if not isinstance(value, str) or not value.strip() or control_in(value):
            raise self.wrong(key, "text")
        return value

    def word(self, key: str, among: Sequence[str], default: str | None = None) -> str:
        """One of a closed list of words."""
        if default is not None and key not in self:
            return default
        value = self.raw(key)
        if not isinstance(value, str) or value not in among:
            raise self.wrong(key, " or ".join(f'"{word}"' for word in among))
        return value

    def whole(
        self, key: str, default: int | None = None, minimum: int | None = None, maximum: int | None = None
    ) -> int:
        """A whole number, bounds included."""
        if default is not None and key not in self:
            return default
        value = self.raw(key)
        if not is_int(value) or not _within(value, minimum, maximum):
            raise self.wrong(key, bounds("a whole number", minimum, maximum))
        return int(value)

    def number(
        self, key: str, default: float | None = None, minimum: float | None = None, allowed: str = "a number"
    ) -> float:
        """A finite number, whole or not."""
        if default is not None and key not in self:
            return default
        value = self.raw(key)
        if not is_number(value) or not _within(value, minimum, None):
            raise self.wrong(key, bounds(allowed, minimum, None))
        return float(value)

    def positive(self, key: str, default: float | None = None) -> float:
        """A finite number above 0."""
        if default is not None and key not in self:
            return default
        value = self.raw(key)
        if not is_number(value) or value <= 0:
            raise self.wrong(key, "a number above 0")
        return float(value)

    def words(self, key: str, among: Sequence[str], default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of different words out of a closed list; at least one."""
        allowed = f"a list of different words out of {', '.join(among)}"
        return self.several(key, allowed, lambda item: isinstance(item, str) and item in among, default=default)

    def several(
        self,
        key: str,
        allowed: str,
        fits: Callable[[object], bool],
        minimum: int = 1,
        maximum: int = 1000,
        default: tuple[Any, ...] | None = None,
    ) -> tuple[Any, ...]:
        """A list of different values, `minimum` to `maximum` of them, that all fit."""
        if default is not None and key not in self:
            return default
        value = self.raw(key)
        if not isinstance(value, list) or not minimum <= len(value) <= maximum:
            raise self.wrong(key, allowed)
        for index, item in enumerate(value):
            if not fits(item):
                raise self.wrong(key, allowed, f"holds {shown(item)}")
            if item in value[:index]:
                raise self.wrong(key, allowed, f"holds {shown(item)} twice")
        return tuple(value)

    def values(self, key: str) -> dict[str, int | float | bool | str]:
        """A table of plain values (text of one line, numbers, true and false); empty where it is missing."""
        inner = self.table(key, None)
        for name, value in inner.items():
            if not (isinstance(value, bool) or is_number(value) or (isinstance(value, str) and value.isprintable())):
                raise inner.wrong(name, "one line of text, a number, true or false")
        return dict(inner.items())

    def table(self, key: str, allowed: Sequence[str] | None) -> Table:
        """The table under `key`, empty where it is missing; `allowed` None lets any key pass."""
        value = self.raw(key) if key in self else {}
        if not isinstance(value, dict):
            raise self.wrong(key, "a table")
        return Table(self.place, self.key(key), value, tuple(value) if allowed is None else allowed)

    def named_tables(self, key: str, allowed: Sequence[str]) -> Iterator[tuple[str, Table]]:
        """The tables under `key` with their names, in the order in which they are written."""
        outer = self.table(key, None)
        if len(outer.items()) > MOST_TABLES:
            raise self.wrong(key, f"at most {MOST_TABLES:,}", f"holds {len(outer.items()):,} tables")
        for name, _ in outer.items():
            if not NAME.fullmatch(name):
                raise CatalogError(f"{self.place}: {outer.key(name)} is no name, {NAME_RULE} expected")
            yield name, outer.table(name, allowed)

    def listed_tables(self, key: str, allowed: Sequence[str]) -> Iterator[Table]:
        """The tables of an array of tables; keys are counted from 0."""
        value = self.raw(key) if key in self else []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(key, "an array of tables")
        for index, item in enumerate(value):
            yield Table(self.place, f"{self.key(key)}[{index}]", item, allowed)


def _within(value: float, minimum: float | None, maximum: float | None) -> bool:
    return (minimum is None or value >= minimum) and (maximum is None or value <= maximum)


def parse_toml(place: str, text: str, first_line: int = 1) -> dict[str, Any]:
    """TOML as plain data. Lines in the sentence count from `first_line`. Raises CatalogError."""
    import tomllib

    # Fewer dots than parts: nothing to look for, and that is so with nearly every file.
    if text.count(".") >= 100 and re.search(_LONG_KEY, text):
        raise CatalogError(f"{place}: a key has a hundred parts and more, a few expected")
    if re.search(r"[0-9_]{1000}", text):
        raise CatalogError(f"{place} is no valid TOML: a number has a thousand digits and more")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise CatalogError(f"{place}: tables or lists are nested too deeply to be read") from None
    except ValueError as error:  # TOMLDecodeError, and int() on thousands of digits
        counted = re.sub(r"\bline (\d+)", lambda match: f"line {int(match[1]) + first_line - 1}", str(error))
        raise CatalogError(f"{place} is no valid TOML: {printable(counted)}") from None


def inside(folder: Path, relative: str) -> Path:
    """The file folder/relative, which must exist and lie in that folder, links followed. Raises CatalogError."""
    path = folder / relative
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(folder)):
        raise CatalogError(f"{shown_path(path)} leads to {shown_path(real)}, a file within its own folder expected")
    try:
        mode = real.stat().st_mode
    except OSError as error:
        raise CatalogError(f"{shown_path(path)} can't be read ({error.strerror}), a file expected") from None
    if not stat.S_ISREG(mode):
        raise CatalogError(f"{shown_path(path)} is {'a folder' if stat.S_ISDIR(mode) else 'no file'}, a file expected")
    return path


def read_text(folder: Path, name: str) -> str:
    """The UTF-8 text of a file that lies in `folder`. Raises CatalogError."""
    path = inside(folder, name)
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise CatalogError(f"{shown_path(path)} can't be read ({error.strerror}), a file expected") from None
    if len(raw) > LARGEST_FILE:
        raise CatalogError(f"{shown_path(path)} is larger than 1 MiB, a text written by a person expected")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise CatalogError(f"{shown_path(path)} holds a byte in line {line} that is no UTF-8, text expected") from None

"""What is looked for in logs: plain text, or /a regular expression/. Pure: text in, places out.

Python's `re` holds the interpreter while it matches, a thread or not, so an expression that could take exponentially
long would stop the screen. Such ones are refused when they are typed; text is looked through in small bites.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from re import _parser  # type: ignore[attr-defined]  # the parse tree of an expression has no public name
from typing import Any

from labtui.runs.clean import clean
from labtui.runs.tail import LONGEST_SHOWN, last_state

MOST_REPEATS = 3
"""Open repeats in one expression: with n of them a line of length L may cost L^n steps."""
LONGEST_MATCHED = 1024
"""Characters of a line that a regular expression is tried on."""
_COLOURS = r"\x1b\[[0-9;:]{0,64}m"


class PatternError(ValueError):
    """That can't be looked for. The message is one sentence."""


@dataclass(frozen=True)
class Pattern:
    """Something to look for. Small letters find large ones too; a large one is meant as it is."""

    text: str
    """As it was typed."""
    _regex: re.Pattern[str] | None = field(default=None, repr=False, compare=False)
    _needle: str = field(default="", repr=False, compare=False)
    _folded: bool = field(default=False, repr=False, compare=False)

    def spans(self, shown: str) -> list[tuple[int, int]]:
        """Where it stands in a line as it is shown, in characters."""
        if self._regex is not None:
            found = self._regex.finditer(shown[:LONGEST_MATCHED])
            return [match.span() for match in found if match.end() > match.start()]
        text = shown.lower() if self._folded else shown
        if len(text) != len(shown):  # a letter whose small form is longer: rare enough to be found, but not marked
            return []
        spans, at = [], text.find(self._needle)
        while at >= 0:
            spans.append((at, at + len(self._needle)))
            at = text.find(self._needle, at + len(self._needle))
        return spans

    def matches(self, shown: str) -> bool:
        """Whether it stands in a line as it is shown."""
        if self._regex is not None:
            return self._regex.search(shown[:LONGEST_MATCHED]) is not None
        return self._needle in (shown.lower() if self._folded else shown)

    def lines(self, raw: bytes) -> list[int]:
        """Which of these lines have it, by their number from 0. Looks at what a reader would see of them."""
        text = raw.decode(errors="replace")
        if "\x1b" in text:
            text = re.sub(_COLOURS, "", text)
        if self._regex is None and self._needle not in (text.lower() if self._folded else text):
            return []
        return [n for n, line in enumerate(text.split("\n")) if self._maybe(line) and self.matches(shown_text(line))]

    def _maybe(self, line: str) -> bool:
        return self._regex is not None or self._needle in (line.lower() if self._folded else line)


def shown_text(line: str) -> str:
    """A line of a log as it is shown: its last state, cut, without escapes."""
    return clean(last_state(line)[:LONGEST_SHOWN]).replace("\n", " ")


@lru_cache(maxsize=8)
def pattern(text: str) -> Pattern:
    """What was typed: `/.../` is a regular expression, everything else is meant as it stands. Raises PatternError."""
    folded = text == text.lower()
    if len(text) > 2 and text[0] == text[-1] == "/":
        return Pattern(text, _compiled(text[1:-1], re.IGNORECASE if folded else 0))
    return Pattern(text, _needle=text.lower() if folded else text, _folded=folded)


def _compiled(expression: str, flags: int) -> re.Pattern[str]:
    try:
        tree = _parser.parse(expression, flags)
        compiled = re.compile(expression, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(f"/{expression}/ is no regular expression: {error}") from None
    if _open_repeats(tree, inside=False) > MOST_REPEATS:
        raise PatternError(f"/{expression}/ could take for ever: at most {MOST_REPEATS} open repeats (* or +)")
    return compiled


def _open_repeats(tree: Any, *, inside: bool) -> int:
    """Repeats of open length. Raises PatternError for what may be split in many ways within one."""
    many = 0
    for code, argument in tree:
        name = str(code)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, below = argument
            is_open = most - least > 8
            if inside and most != least:
                raise PatternError("that expression could take for ever: it has a repeat within a repeat")
            many += is_open + _open_repeats(below, inside=inside or most > 1)
        elif name == "BRANCH":
            if inside:
                raise PatternError("that expression could take for ever: it has alternatives within a repeat")
            many += max(_open_repeats(branch, inside=inside) for branch in argument[1])
        elif name == "SUBPATTERN":
            many += _open_repeats(argument[-1], inside=inside)
        elif name in ("ASSERT", "ASSERT_NOT"):
            many += _open_repeats(argument[1], inside=inside)
        elif name in ("ATOMIC_GROUP",):
            many += _open_repeats(argument, inside=inside)
        elif name in ("GROUPREF", "GROUPREF_EXISTS", "GROUPREF_IGNORE"):
            raise PatternError("that expression refers back to a group, which could take for ever")
    return many

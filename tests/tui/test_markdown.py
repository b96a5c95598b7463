"""Markdown as lines: what it says is all there, at any width, and nothing of it can harm a terminal."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from small_lab import HOSTILE

from labtui.tui.lines import cells
from labtui.tui.markdown import lay_out, literal, parse
from labtui.tui.theme import ROLES

TEXT = """# A ring

Two *short* words, **`code`** and
a [link](https://example.org), <b>html</b>.

- one item that is long enough for two lines
- two
  1. inner

```python
    indented = 1
```

> quoted

| way  | MB/s |
|------|-----:|
| ring | 12   |
| naive | 1.5 |

<!-- nobody sees this -->

---
"""


def shown(text: str, width: int) -> list[str]:
    return ["".join(piece for piece, _ in line).rstrip() for line in lay_out(parse(text), width)]


def test_everything_that_is_written_is_shown() -> None:
    assert shown(TEXT, 40) == [
        "A ring",
        "",
        "Two short words, code and a link",
        "(https://example.org), <b>html</b>.",
        "",
        "• one item that is long enough for two",
        "  lines",
        "• two",
        "  1. inner",
        "",
        "      indented = 1",
        "",
        "▎ quoted",
        "",
        "way    MB/s",
        "───────────",
        "ring     12",
        "naive   1.5",
        "",
        "─" * 40,
    ]


def test_roles_are_kept_where_words_are_wrapped() -> None:
    line = lay_out(parse("a **b c**, `d`"), 40)[0]
    assert line == (("a ", ""), ("b c", "strong"), (", ", ""), ("d", "code"))
    wrapped = lay_out(parse("**one two three**"), 8)
    assert wrapped == ((("one two", "strong"),), (("three", "strong"),))


def test_any_text_can_be_shown_literally() -> None:
    (line,) = lay_out(literal("a *b* [c](d) # \x1b[2Je"), 80)
    assert line == (("a *b* [c](d) # e", ""),)


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("ab*_`#>-|[]()<!\n 1.\t漢\x1b\u202e~="), max_size=80), st.integers(8, 60))
def test_no_text_is_too_wide_or_harmful(text: str, width: int) -> None:
    for source in (text, f"{text}\n\n{HOSTILE}", f"| a | b |\n|---|---|\n| {text} | {HOSTILE} |"):
        for line in lay_out(parse(source), width):
            assert cells(line) <= max(width, 8)
            for piece, role in line:
                assert piece.isprintable()
                assert all(name in ROLES for name in str(role).split())

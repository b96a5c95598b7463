"""A guide's Markdown as lines of our own: parsed once into frozen blocks, laid out for any width. Pure.

Textual's own Markdown widget mounts a widget for each paragraph; here a page is a list of lines like any other pane's.
Links and images show their text, HTML is shown as it is written, and nothing is ever loaded or opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, chop_cells

from labtui.runs.clean import clean
from labtui.tui.lines import Line, Piece, cells, crop

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

Span = tuple[str, str]
"""A text with its roles (see theme.ROLES); "\\n" alone breaks the line."""
NARROWEST = 8
"""Below so many cells nothing is wrapped further."""


@dataclass(frozen=True)
class Heading:
    """A heading within a page."""

    spans: tuple[Span, ...]
    level: int


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Code:
    """Lines that keep their spaces."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """Items, each with its mark and its blocks."""

    items: tuple[tuple[str, tuple[Block, ...]], ...]
    tight: bool


@dataclass(frozen=True)
class Quote:
    """A quotation."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Table:
    """A header and rows; `right` says which columns are right-aligned."""

    rows: tuple[tuple[tuple[Span, ...], ...], ...]
    right: tuple[bool, ...]


@dataclass(frozen=True)
class Break:
    """A thematic break."""


Block = Heading | Paragraph | Code | Listing | Quote | Table | Break


# Parsing ------------------------------------------------------------------------------------------------------------


@cache
def _parser() -> MarkdownIt:
    # Imported by the thread that reads guides, after the first paint.
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def parse(text: str) -> tuple[Block, ...]:
    """Any Markdown as blocks; every text there is has no control characters."""
    from markdown_it.tree import SyntaxTreeNode

    return tuple(_blocks(SyntaxTreeNode(_parser().parse(text)).children))


def literal(text: str) -> tuple[Block, ...]:
    """Any text as one paragraph that shows just it."""
    return (Paragraph(((" ".join(clean(text).split()), ""),)),)


def _blocks(nodes: Iterable[SyntaxTreeNode]) -> Iterator[Block]:
    for node in nodes:
        kind = node.type
        if kind == "heading":
            yield Heading(_inline(node), int(node.tag[1:]))
        elif kind == "paragraph":
            yield Paragraph(_inline(node))
        elif kind in ("fence", "code_block"):
            yield Code(tuple(clean(node.content).expandtabs(4).rstrip("\n").split("\n")))
        elif kind in ("bullet_list", "ordered_list"):
            yield _listing(node)
        elif kind == "blockquote":
            yield Quote(tuple(_blocks(node.children)))
        elif kind == "table":
            yield _table(node)
        elif kind == "hr":
            yield Break()
        elif kind == "html_block" and not node.content.lstrip().startswith("<!--"):
            yield Code(tuple(clean(node.content).expandtabs(4).rstrip("\n").split("\n")))


def _listing(node: SyntaxTreeNode) -> Listing:
    first: Any = node.attrs.get("start", 1)
    items = []
    for number, item in enumerate(node.children):
        mark = f"{int(first) + number}." if node.type == "ordered_list" else "•"
        items.append((mark, tuple(_blocks(item.children))))
    tight = all(child.hidden for item in node.children for child in item.children if child.type == "paragraph")
    return Listing(tuple(items), tight)


def _table(node: SyntaxTreeNode) -> Table:
    rows = [row.children for part in node.children for row in part.children]
    right = tuple("right" in str(cell.attrs.get("style", "")) for cell in rows[0])
    return Table(tuple(tuple(_inline(cell) for cell in row) for row in rows), right)


def _inline(node: SyntaxTreeNode) -> tuple[Span, ...]:
    return tuple(span for child in node.children for span in _spans(child, ""))


def _spans(node: SyntaxTreeNode, role: str) -> Iterator[Span]:
    kind = node.type
    if kind == "softbreak":
        yield (" ", role)
    elif kind == "hardbreak":
        yield ("\n", "")
    elif kind == "code_inline":
        yield (_flat(node.content), f"{role} code".strip())
    elif kind == "html_inline":
        if not node.content.startswith("<!--"):
            yield (_flat(node.content), role)
    elif kind == "image":
        yield (_flat(node.content), role)
    elif node.children:
        inner = {"em": "emphasis", "strong": "strong"}.get(kind, "")
        for child in node.children:
            yield from _spans(child, f"{role} {inner}".strip())
        if kind == "link":
            target, told = _flat(str(node.attrs.get("href", ""))), "".join(_told(node))
            if target and target != told:
                yield (f" ({target})", "dim")
    elif node.content:
        yield (_flat(node.content), role)


def _told(node: SyntaxTreeNode) -> Iterator[str]:
    for child in node.children:
        yield from _told(child) if child.children else [_flat(child.content)]


def _flat(text: str) -> str:
    """One line of it, harmless, with its outer spaces."""
    return clean(text).replace("\n", " ").replace("\t", " ")


# Laying out ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def lay_out(blocks: tuple[Block, ...], width: int) -> tuple[Line, ...]:
    """The blocks on lines of at most `width` cells, an empty line between two."""
    width = max(width, NARROWEST)
    # What is nested too deeply for its room is cut.
    return tuple(line if cells(line) <= width else crop(line, width) for line in _laid_out(blocks, width, apart=True))


def _laid_out(blocks: Sequence[Block], width: int, *, apart: bool) -> list[Line]:
    width = max(width, NARROWEST)
    lines: list[Line] = []
    for block in blocks:
        if lines and apart:
            lines.append(())
        lines += _lines(block, width)
    return lines


def _lines(block: Block, width: int) -> list[Line]:
    if isinstance(block, Paragraph):
        return flow(block.spans, width)
    if isinstance(block, Heading):
        return flow(block.spans, width, "title" if block.level <= 2 else "strong")
    if isinstance(block, Code):
        return _code(block, width)
    if isinstance(block, Quote):
        return [(("▎ ", "rule"), *line) for line in _laid_out(block.blocks, width - 2, apart=True)]
    if isinstance(block, Table):
        return _table_lines(block, width)
    if isinstance(block, Break):
        return [(("─" * width, "rule"),)]
    return _list_lines(block, width)


def _code(block: Code, width: int) -> list[Line]:
    lines: list[Line] = []
    for text in block.lines:
        for piece in chop_cells(text, width - 2) or [""]:
            lines.append((("  ", ""), (piece, "code")))
    return lines


def _list_lines(block: Listing, width: int) -> list[Line]:
    indent = max((cell_len(mark) for mark, _ in block.items), default=0) + 1
    lines: list[Line] = []
    for mark, blocks in block.items:
        if lines and not block.tight:
            lines.append(())
        inner = _laid_out(blocks, width - indent, apart=not block.tight) or [()]
        for number, line in enumerate(inner):
            head = mark if number == 0 else ""
            lines.append(((head + " " * (indent - cell_len(head)), "dim"), *line))
    return lines


def _table_lines(block: Table, width: int) -> list[Line]:
    columns = len(block.right)
    wanted = [max(1, *(_width(row[n]) for row in block.rows if n < len(row))) for n in range(columns)]
    room = width - 2 * (columns - 1)
    while sum(wanted) > max(room, 4 * columns):
        wanted[wanted.index(max(wanted))] -= 1
    lines: list[Line] = []
    for number, row in enumerate(block.rows):
        inside = [flow(row[n] if n < len(row) else (), wanted[n], "" if number else "strong") for n in range(columns)]
        for height in range(max(len(cell) for cell in inside)):
            pieces: list[Piece] = []
            for n, cell in enumerate(inside):
                line = cell[height] if height < len(cell) else ()
                gap: Piece = (" " * max(wanted[n] - cells(line), 0), "")
                pieces += [("  ", "")] if n else []
                pieces += [gap, *line] if block.right[n] else [*line, gap]
            lines.append(crop(pieces, min(width, sum(wanted) + 2 * (columns - 1))))
        if number == 0:
            lines.append((("─" * min(width, sum(wanted) + 2 * (columns - 1)), "rule"),))
    return lines


def _width(spans: Sequence[Span]) -> int:
    return sum(cell_len(text) for text, _ in spans)


def flow(spans: Sequence[Span], width: int, role: str = "") -> list[Line]:
    """Spans, harmless, wrapped at spaces onto lines of at most `width` cells; `role` is added to all. At least one."""
    lines: list[list[Span]] = [[]]
    used = 0
    for word in _words(spans):
        if word == [("\n", "")]:
            lines.append([])
            used = 0
            continue
        size, space = _width(word), 1 if used else 0
        if used and used + space + size > width:
            lines.append([])
            used = space = 0
        if size > width:
            # Longer than a line: cut where the line ends.
            word = [(part, style) for text, style in word for part in chop_cells(text, width)]
            for text, style in word:
                if used and used + cell_len(text) > width:
                    lines.append([])
                    used = 0
                lines[-1].append((text, style))
                used += cell_len(text)
            continue
        if space:
            # A space within what has one role has it too: it may be drawn as a line of one colour.
            before, after = lines[-1][-1][1], word[0][1]
            lines[-1].append((" ", before if before == after else ""))
        lines[-1] += word
        used += space + size
    return [_joined(line, role) for line in lines]


def _words(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """What spaces part; a word may have several roles, such as an emphasised one with a comma."""
    word: list[Span] = []
    for text, role in spans:
        for part in [text] if text == "\n" else re.split(r"(\s+)", clean(text)):
            if part.isspace():
                if word:
                    yield word
                word = []
                if part == "\n":
                    yield [("\n", "")]
            elif part:
                word.append((part, role))
    if word:
        yield word


def _joined(line: Sequence[Span], role: str) -> Line:
    """Neighbours of one role as one piece: fewer to draw."""
    pieces: list[Piece] = []
    for text, own in line:
        style = f"{role} {own}".strip()
        if pieces and pieces[-1][1] == style:
            pieces[-1] = (pieces[-1][0] + text, style)
        else:
            pieces.append((text, style))
    return tuple(pieces)

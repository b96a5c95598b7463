"""`labtui doctor`: what of this machine would trip up a run, and what to do about it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from labtui.cli import output
from labtui.runs.clean import clean_line

if TYPE_CHECKING:
    from labtui.machine.doctor import Finding

_WORDS = {"ok": "ok", "note": "note", "warn": "WARNING", "fail": "FAILS"}
_LEAST = 24
"""Cells that a text is given, however narrow the terminal."""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = (
        "FAILS: runs will break. WARNING: they will be slow, or may break. Exit code 1 if anything FAILS, else 0."
    )


def main(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from labtui.machine import doctor
    from labtui.runs.folder import logs_root

    findings = doctor.examine(logs_root())
    if arguments.json:
        output.print_json([asdict(finding) for finding in findings])
    else:
        print("\n".join([*_lines(findings), _verdict(findings)]))
    return 1 if any(finding.level == "fail" for finding in findings) else 0


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    names = max(len(finding.name) for finding in findings)
    for finding in findings:
        head = f"{_WORDS[finding.level]:<7}  {finding.name:<{names}}  "
        texts = [finding.found]
        if finding.level != "ok":
            texts += [text for text in (finding.why, finding.advice and f"-> {finding.advice}") if text]
        for text in texts:
            for line in _wrapped(clean_line(text), output.line_width() - len(head)):
                yield f"{head}{line}"
                head = " " * len(head)


def _wrapped(text: str, width: int) -> list[str]:
    """The text in lines that fit; whole where stdout is no terminal."""
    if output.cells(text) <= width:
        return [text]
    import textwrap

    return textwrap.wrap(text, max(width, _LEAST), break_on_hyphens=False) or [""]


def _verdict(findings: Sequence[Finding]) -> str:
    counts = {level: sum(finding.level == level for finding in findings) for level in ("fail", "warn")}
    if not any(counts.values()):
        return "Nothing here should break a run, or slow it down."
    parts = []
    if counts["fail"]:
        parts.append(f"{output.plural(counts['fail'], 'thing')} will break runs")
    if counts["warn"]:
        whom = "them" if parts else "runs"
        parts.append(f"{output.plural(counts['warn'], 'thing')} may slow {whom} down or break them")
    return f"{', '.join(parts)}."

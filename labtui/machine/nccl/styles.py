"""How the lines of a log begin: what launchers, collectors and terminals put before them. Pure."""

from __future__ import annotations

import re

PLAIN = "plain"

_STYLES = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("ray-nested", rb"\s*\([^()]{0,200}pid=[^()]{0,200}\)\s*\([^()]{0,200}pid="),
        ("ray", rb"\s*\([^()]{0,200}pid=[^()]{0,200}\)"),
        ("mpirun", rb"\[[^\[\]\s]{0,100}\d+,\d+\]<std(?:out|err|diag)>:"),
        ("torchrun-rank", rb"\s*\[[a-z]*\d+\]:"),
        (
            "timestamp",
            rb"\W{0,3}\d{4}[-/.]\d\d[-/.]\d\d[T _]\d\d:\d\d|\W{0,2}\d\d:\d\d:\d\d"
            rb"|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d ",
        ),
        ("lineno", rb"\s*\d{1,8}(?:[:|)\t]|\s)\s*(?=[^\s\d])"),
        ("nohost", rb":\d+:\d+ \["),
        ("none", rb"(?:[\w./-]+:\d+ )?NCCL (?:INFO|WARN|ATTN)"),
        ("pdsh", rb"[\w.-]+: +(?:[^\s:]*:\d+:\d+ \[|NCCL version|RCCL version)"),
    )
)
CLOCK = re.compile(rb"\W{0,3}\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+-]{0,16}Z?\W{0,3}")
"""A whole line that holds a time and nothing else."""


def style(line: bytes) -> str:
    """How this line begins."""
    start = line[:600]
    for name, pattern in _STYLES:
        if pattern.match(start):
            return name
    return PLAIN

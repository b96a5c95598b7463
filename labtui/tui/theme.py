"""The colours, chosen for 256 colours and looked at in 16. Meaning never rests on them alone."""

from __future__ import annotations

from rich.style import Style
from textual.theme import Theme

DIM, RULE, CURSOR = "#7f8896", "#3a414d", "#263042"
SLATE, MOSS = "#4d6a99", "#5f8057"
"""Of what is filled rather than written: muted, for there is much of it."""
BLUE, AMBER, GREEN, ROSE, TEAL, ORANGE, RED = (
    "#7aa2f7", "#d8a657", "#8fbf7f", "#d3869b", "#6fc3c9", "#e78a4e", "#ea6962",
)  # fmt: skip

THEME = Theme(
    name="labtui",
    dark=True,
    background="#101318",
    surface="#171b22",
    panel="#1d222b",
    foreground="#c9ced8",
    primary=BLUE,
    secondary=BLUE,
    accent=TEAL,
    success=GREEN,
    warning=AMBER,
    error=RED,
    variables={
        "labtui-rule": RULE,
        "scrollbar": RULE,
        "scrollbar-background": "#101318",
        "scrollbar-corner-color": "#101318",
        "link-color": BLUE,
    },
)

ROLES = {
    "": Style.null(),
    "dim": Style(color=DIM),
    "strong": Style(bold=True),
    "title": Style(color=BLUE, bold=True),
    "rule": Style(color=RULE),
    "accent": Style(color=BLUE),
    "good": Style(color=GREEN),
    "warn": Style(color=AMBER),
    "bad": Style(color=RED),
    "area": Style(color=SLATE),
    "metric": Style(color=MOSS),
    "live": Style(color=TEAL, bold=True),
    "cursor": Style(bgcolor=CURSOR),
    "caret": Style(reverse=True),
    "emphasis": Style(italic=True),
    "code": Style(color=TEAL),
    "series0": Style(color=BLUE),
    "series1": Style(color=AMBER),
    "series2": Style(color=GREEN),
    "series3": Style(color=ROSE),
    "series4": Style(color=TEAL),
    "series5": Style(color=ORANGE),
}
"""What a piece of a line can be. Plain styles rather than CSS: Textual would match sixteen rules for every widget anew
at each change of focus."""

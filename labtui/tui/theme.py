"""The colours, chosen for 256 colours and looked at in 16. Meaning never rests on them alone."""

from __future__ import annotations

from textual.theme import Theme

THEME = Theme(
    name="labtui",
    dark=True,
    background="#101318",
    surface="#171b22",
    panel="#1d222b",
    foreground="#c9ced8",
    primary="#7aa2f7",
    secondary="#7aa2f7",
    accent="#6fc3c9",
    success="#8fbf7f",
    warning="#d8a657",
    error="#ea6962",
    variables={
        "labtui-dim": "#7f8896",
        "labtui-rule": "#3a414d",
        "labtui-cursor": "#263042",
        "scrollbar": "#3a414d",
        "scrollbar-background": "#101318",
        "scrollbar-corner-color": "#101318",
        "link-color": "#7aa2f7",
    },
)

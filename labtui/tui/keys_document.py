"""docs/keys.md, made from the table of actions: `python -m labtui.tui.keys_document > docs/keys.md`."""

from __future__ import annotations

from labtui.tui import actions
from labtui.tui.screens.help import TITLES

_HEAD = """# Keys of the terminal UI

Made from the table of actions in `labtui/tui/actions.py`; `?` shows those that work where you are, those of the focused
pane first, and `ctrl+p` searches them by what they do.
"""
_OF_THE_RUN = (actions.LOG, actions.TIME, actions.PANE)


def text() -> str:
    """All keys by where they work, as Markdown."""
    places = [place for place in dict.fromkeys(action.where for action in actions.ACTIONS) if place != actions.APP]
    lines = [_HEAD]
    for place in (*(place for place in places if place != actions.SCREEN), actions.SCREEN):
        title = f"Run: {TITLES[place]}" if place in _OF_THE_RUN else TITLES[place]
        lines += [f"## {title[:1].upper()}{title[1:]}", "", "| key | does |", "| --- | --- |"]
        # The app's keys have no title of their own: they work everywhere, as a screen's common ones do.
        for action in actions.of(*((place, actions.APP) if place == actions.SCREEN else (place,))):
            keys = " ".join(f"`{_escaped(key)}`" for key in actions.each_key(action))
            lines.append(f"| {keys} | {_escaped(action.help)} |")
        lines.append("")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(text(), end="")

"""The table of actions: bindings, footer, `?`, palette and docs are all made from it.

An action named `stop_run` is done by the method `action_stop_run` of the screen, pane or app that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding

APP, SCREEN, LAB, RUN, RUNS, PANE, LIST = "app", "screen", "lab", "run", "runs", "pane", "list"
"""Where actions belong: the app, any screen, one screen, the panes of the Run, anything that can be scrolled."""


@dataclass(frozen=True)
class Action:
    """Something that a person can do."""

    id: str
    where: str
    keys: str
    """Textual's key names, separated by commas; the first is the one that is shown."""
    label: str
    """For the footer: one or two words; empty where the footer leaves it out."""
    help: str
    """For `?` and the palette: a sentence without its full stop."""
    command: bool = True
    """Whether the palette offers it."""


ACTIONS = (
    Action("start_run", LAB, "enter", "run", "start the chosen experiment in the chosen variant and watch it"),
    Action("choose_variant", LAB, "v", "variant", "choose a variant of the experiment"),
    Action("open_newest", LAB, "o", "open newest", "look at the newest run of the chosen experiment"),
    Action("stop_run", RUN, "s", "stop", "stop this run (asks first)"),
    Action("take_stacks", RUN, "x", "stacks", "ask every rank where it is, and say whom the others wait for"),
    Action("run_again", RUN, "R", "run again", "start a run like this one"),
    Action("show_machine", RUN, "m", "machine", "to the GPUs, or the ranks' processes, over the time of the run"),
    Action("show_paths", RUN, "p", "paths", "to the paths between the ranks, and what NCCL said of them"),
    Action("zoom", RUN, "z", "zoom", "give the focused pane the whole screen, or take it back"),
    Action("leave", RUN, "d", "leave", "leave labtui; a running run goes on", command=False),
    Action("open_run", RUNS, "enter", "open", "look at the chosen run"),
    Action("run_again", RUNS, "R", "run again", "start a run like the chosen one"),
    Action("filter", RUNS, "slash", "filter", "show only runs that fit what you type: words, state:failed, width=512"),
    Action("next_order", RUNS, "o", "sort", "sort by the next column"),
    Action("turn_order", RUNS, "O", "", "sort the other way round"),
    Action("mark", RUNS, "space", "mark", "mark the chosen run for a comparison, or take the mark away"),
    Action("compare", RUNS, "c", "compare", "lay the marked runs side by side, or the group of the chosen one"),
    Action("star", RUNS, "asterisk", "", "give the chosen run a star, or take it away"),
    Action("edit_tags", RUNS, "t", "tags", "write the chosen run's tags"),
    Action("edit_note", RUNS, "n", "note", "write a note to the chosen run"),
    Action("delete_run", RUNS, "D", "delete", "delete the chosen run's folder when labtui is left"),
    Action("undo_delete", RUNS, "u", "", "bring back the run that was deleted last"),
    Action("previous_tab", PANE, "left,h,[", "", "the previous chart, GPU, matrix of paths or rank's log"),
    Action("next_tab", PANE, "right,l,]", "next", "the next chart, GPU, matrix of paths or rank's log"),
    Action("follow", PANE, "f", "follow", "follow the log's end, or stop following"),
    Action("other_stream", PANE, "e", "stderr", "a rank's stderr instead of its stdout, and back"),
    Action("move(-1)", LIST, "up,k", "", "one line up", command=False),
    Action("move(1)", LIST, "down,j", "", "one line down", command=False),
    Action("page(-1)", LIST, "pageup,ctrl+u", "", "one page up", command=False),
    Action("page(1)", LIST, "pagedown,ctrl+d", "", "one page down", command=False),
    Action("go_first", LIST, "home,g", "", "to the first line", command=False),
    Action("go_last", LIST, "end,G", "", "to the last line", command=False),
    Action("show_lab", APP, "1", "", "the Lab: experiments and their guides"),
    Action("show_run", APP, "2", "", "the Run: the chosen, the live or the newest one"),
    Action("show_runs", APP, "3", "", "all Runs"),
    Action("next_pane", SCREEN, "tab", "next pane", "to the next pane", command=False),
    Action("previous_pane", SCREEN, "shift+tab", "", "to the previous pane", command=False),
    Action("back", SCREEN, "escape", "", "back to where you came from", command=False),
    Action("show_help", APP, "question_mark,f1", "keys", "this list of keys"),
    Action("command_palette", APP, "ctrl+p", "commands", "search all commands by name", command=False),
    Action("suspend_process", APP, "ctrl+z", "", "back to the shell for a while (`fg` returns)", command=False),
    Action("leave", APP, "q,ctrl+c", "leave", "leave labtui; a running run goes on"),
)

_SHOWN_KEYS = {
    "question_mark": "?", "escape": "esc", "slash": "/", "asterisk": "*", "pageup": "page up", "pagedown": "page down",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip


def of(*places: str) -> tuple[Action, ...]:
    """The actions that belong to these places, in the table's order."""
    return tuple(action for action in ACTIONS if action.where in places)


def bindings(*places: str) -> list[Binding]:
    """Textual's bindings for the actions of these places. Keys have ids, so that a keymap can change them."""
    return [
        Binding(action.keys, action.id, action.label, show=False, id=f"{action.where}.{action.id}")
        for action in of(*places)
    ]


def shown_keys(action: Action) -> str:
    """The action's keys as people write them: `? f1`."""
    return " ".join(_SHOWN_KEYS.get(key, key) for key in action.keys.split(","))


def shown_key(action: Action) -> str:
    """The key that the footer shows."""
    first = action.keys.split(",")[0]
    return _SHOWN_KEYS.get(first, first)

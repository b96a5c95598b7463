"""The table of actions: bindings, footer, `?`, palette and docs are all made from it.

An action named `stop_run` is done by the method `action_stop_run` of the screen, pane or app that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding

APP, SCREEN, LAB, RUN, RUNS, PANE, LIST = "app", "screen", "lab", "run", "runs", "pane", "list"
COMPARE = "compare"
SIMULATE = "simulate"
MACHINE = "machine"
LOG, TIME = "log", "time"
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
    always: bool = False
    """Whether it works over questions and while something is typed, too."""


ACTIONS = (
    Action("act", LAB, "enter", "run", "start the step's run and watch it; in the guide, what the chosen block offers"),
    Action("next_step", LAB, "n,right,l", "next step", "the next step of the guide"),
    Action("previous_step", LAB, "p,left,h", "", "the step before"),
    Action("edit", LAB, "e", "edit", "set the parameters of a run in a form, then start it"),
    Action("choose_variant", LAB, "v", "variant", "choose a variant of the experiment"),
    Action("show_command", LAB, "c", "command", "show the exact command that would be started, and copy it"),
    Action("open_newest", LAB, "o", "open", "look at the newest run: of the chosen block, or of the experiment"),
    Action("run_block", LAB, "r", "", "start the run that the chosen block of the guide is about"),
    Action("show_anyway", LAB, "s", "", "show a number without a guess, or an answer"),
    Action("search", LOG, "slash", "search", "look for a text in the log, or for a /regular expression/"),
    Action("find(1)", LOG, "n", "", "to the next line that has it", command=False),
    Action("find(-1)", LOG, "N", "", "to the one before", command=False),
    Action("show_only", LOG, "ampersand,ctrl+f", "filter", "show only lines that have a text in them"),
    Action("first_traceback", LOG, "t", "traceback", "to the first traceback in any rank's log"),
    Action("wrap", LOG, "w", "wrap", "wrap long lines, or cut them"),
    Action("follow", LOG, "f", "follow", "follow the log's end, or stop following"),
    Action("other_stream", LOG, "e", "stderr", "a rank's stderr instead of its stdout, and back"),
    Action("open_in_pager", LOG, "o", "pager", "open the log's file in $PAGER"),
    Action("step_in_time(-1)", TIME, "comma,shift+left", "", "back in time by a column, or a span", command=False),
    Action("step_in_time(1)", TIME, "full_stop,shift+right", "time", "on in time, by as much", command=False),
    Action("leap_in_time(-1)", TIME, "less_than_sign", "", "far back in time", command=False),
    Action("leap_in_time(1)", TIME, "greater_than_sign", "", "far on in time", command=False),
    Action("zoom_time(1)", TIME, "plus,equals_sign", "closer", "the timeline's cursor from nearer", command=False),
    Action("zoom_time(-1)", TIME, "minus", "", "more of the timeline", command=False),
    Action("fit_time", TIME, "0", "all", "all of the timeline, or the newest burst of spans"),
    Action("stop_run", RUN, "s", "stop", "stop this run (asks first)"),
    Action("take_stacks", RUN, "x", "stacks", "ask every rank where it is, and say whom the others wait for"),
    Action("run_again", RUN, "R", "run again", "start a run like this one"),
    Action("show_machine", RUN, "m", "machine", "to the GPUs, or the ranks' processes, over the time of the run"),
    Action("show_paths", RUN, "p", "paths", "to the paths between the ranks, and what NCCL said of them"),
    Action("show_timeline", RUN, "T", "timeline", "to the timeline: what each rank did when"),
    Action("show_processes", RUN, "P", "", "to the processes: what was launched and the ranks, with their pids"),
    Action("show_chart", RUN, "C", "", "to the charts"),
    Action("show_findings", RUN, "F", "", "to the findings: checks, predictions, results"),
    Action("show_logs", RUN, "L", "", "to the logs"),
    Action("copy", RUN, "y", "", "copy what is under the cursor: a number, a line, a pid, a command"),
    Action("zoom", RUN, "z", "zoom", "give the focused pane the whole screen, or take it back"),
    Action("export_run", RUN, "E", "export", "export this run as a report, csv, json or trace into the current folder"),
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
    Action("export_run", RUNS, "E", "export", "export the chosen run as a report, csv, json or trace"),
    Action("delete_run", RUNS, "D", "delete", "delete the chosen run's folder when labtui is left"),
    Action("undo_delete", RUNS, "u", "", "bring back the run that was deleted last"),
    Action("previous_tab", COMPARE, "left,h,[", "", "the previous chart"),
    Action(
        "next_tab", COMPARE, "right,l,]", "next chart", "the next chart, of curves and results first, then of telemetry"
    ),
    Action("apart", COMPARE, "t", "apart", "charts beside each other instead of over each other, and back"),
    Action("next_baseline", COMPARE, "b", "baseline", "the next run is the one that the others are compared with"),
    Action("zoom", COMPARE, "z", "zoom", "give the focused pane the whole screen, or take it back"),
    Action("read_again", COMPARE, "r", "read again", "read the runs anew"),
    Action("walk(-1)", SIMULATE, "left", "", "back to where something begins or ends", command=False),
    Action("walk(1)", SIMULATE, "right", "time", "on to where something begins or ends", command=False),
    Action("next_pane", SIMULATE, "tab", "schedule", "the next schedule"),
    Action("previous_pane", SIMULATE, "shift+tab", "", "the previous schedule"),
    Action("step('p',1)", SIMULATE, "p", "devices", "one device more", command=False),
    Action("step('p',-1)", SIMULATE, "P", "", "one device fewer", command=False),
    Action("step('m',1)", SIMULATE, "m", "batches", "one micro-batch more", command=False),
    Action("step('m',-1)", SIMULATE, "M", "", "one micro-batch fewer", command=False),
    Action("against", SIMULATE, "a", "against", "another schedule below this one, or none"),
    Action("edit", SIMULATE, "e", "edit", "write sizes and costs as text"),
    Action("optimise", SIMULATE, "o", "optimise", "let a solver find the best schedule for these costs and memory"),
    Action("choose", SIMULATE, "s", "schedules", "choose a schedule from the list"),
    Action("swap", SIMULATE, "A", "", "the lower schedule above, and the upper one below"),
    Action("step('v',1)", SIMULATE, "v", "", "one stage per device more, of interleaved schedules", command=False),
    Action("step('v',-1)", SIMULATE, "V", "", "one stage per device fewer", command=False),
    Action("step('F',1)", SIMULATE, "f", "", "a forward takes longer, by half a unit", command=False),
    Action("step('F',-1)", SIMULATE, "F", "", "a forward takes less long", command=False),
    Action("step('B',1)", SIMULATE, "b", "", "a backward takes longer, both its parts if it is split", command=False),
    Action("step('B',-1)", SIMULATE, "B", "", "a backward takes less long", command=False),
    Action("step('I',1)", SIMULATE, "i", "", "the gradient of the input takes longer", command=False),
    Action("step('I',-1)", SIMULATE, "I", "", "the gradient of the input takes less long", command=False),
    Action("step('W',1)", SIMULATE, "w", "", "the gradient of the weights takes longer", command=False),
    Action("step('W',-1)", SIMULATE, "W", "", "the gradient of the weights takes less long", command=False),
    Action("step('comm',1)", SIMULATE, "c,k", "", "a transfer takes longer", command=False),
    Action("step('comm',-1)", SIMULATE, "C,K", "", "a transfer takes less long", command=False),
    Action("turn_links", SIMULATE, "u", "", "a link carries one transfer at a time, or all at once"),
    Action("turn_costs", SIMULATE, "d", "", "costs are those of a stage, or of all stages of a device together"),
    Action("edit_limit", SIMULATE, "l", "", "write a limit of memory"),
    Action("move(-1)", SIMULATE, "up", "", "to the device above", command=False),
    Action("move(1)", SIMULATE, "down", "", "to the device below", command=False),
    Action("walk_operations(-1)", SIMULATE, "[", "", "back to what the device did before", command=False),
    Action("walk_operations(1)", SIMULATE, "]", "", "on to what the device does next", command=False),
    Action("go_first", SIMULATE, "home", "", "to the beginning", command=False),
    Action("go_last", SIMULATE, "end", "", "to the end", command=False),
    Action("page(-1)", SIMULATE, "pageup", "", "the figures one page up", command=False),
    Action("page(1)", SIMULATE, "pagedown", "", "the figures one page down", command=False),
    Action("zoom", SIMULATE, "z", "zoom", "as large as it takes, or all of it in the width"),
    Action("turn_rows", SIMULATE, "r", "", "a row for each stage, or for each device"),
    Action("write_trace", SIMULATE, "t", "trace", "write the schedule for ui.perfetto.dev into the current folder"),
    Action("examine", MACHINE, "r", "look again", "let the doctor look again, and read the newest profile"),
    Action("previous_tab", MACHINE, "left,h,[", "", "the previous matrix of links"),
    Action("next_tab", MACHINE, "right,l,]", "next matrix", "the next matrix of links: kinds, ceilings, peer access"),
    Action("zoom", MACHINE, "z", "zoom", "give the focused pane the whole screen, or take it back"),
    Action("previous_tab", PANE, "left,h,[", "", "the previous chart, GPU, matrix or log; the timeline's cursor back"),
    Action("next_tab", PANE, "right,l,]", "next", "the next chart, GPU, matrix or log; the timeline's cursor on"),
    Action("move(-1)", LIST, "up,k", "", "one line up", command=False),
    Action("move(1)", LIST, "down,j", "", "one line down", command=False),
    Action("page(-1)", LIST, "pageup,ctrl+u", "", "one page up", command=False),
    Action("page(1)", LIST, "pagedown,ctrl+d", "", "one page down", command=False),
    Action("go_first", LIST, "home,g", "", "to the first line", command=False),
    Action("go_last", LIST, "end,G", "", "to the last line", command=False),
    Action("show_lab", APP, "1", "", "the Lab: experiments and their guides"),
    Action("show_run", APP, "2", "", "the Run: the chosen, the live or the newest one"),
    Action("show_runs", APP, "3", "", "all Runs"),
    Action("show_compare", APP, "4", "", "Compare: the runs that were marked, side by side"),
    Action("show_simulate", APP, "5", "", "Simulate: pipeline schedules to play with"),
    Action("show_this_machine", APP, "6", "", "this Machine: what it is, its links, and what would trip up a run"),
    Action("next_pane", SCREEN, "tab", "next pane", "to the next pane", command=False),
    Action("previous_pane", SCREEN, "shift+tab", "", "to the previous pane", command=False),
    Action("back", SCREEN, "escape", "", "back to where you came from", command=False),
    Action("show_help", APP, "question_mark,f1", "keys", "this list of keys"),
    Action("command_palette", APP, "ctrl+p", "commands", "search all commands by name", command=False),
    Action(
        "save_picture", APP, "ctrl+s,f12", "", "save a picture of the screen (SVG) into the current folder", always=True
    ),
    Action("suspend_process", APP, "ctrl+z", "", "back to the shell for a while (`fg` returns)", command=False),
    Action("leave", APP, "q,ctrl+c", "leave", "leave labtui; a running run goes on"),
)

_SHOWN_KEYS = {
    "equals_sign": "=", "minus": "-", "plus": "+", "greater_than_sign": ">", "less_than_sign": "<", "full_stop": ".",
    "comma": ",", "ampersand": "&",
    "question_mark": "?", "escape": "esc", "slash": "/", "asterisk": "*", "pageup": "page up", "pagedown": "page down",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip


def of(*places: str) -> tuple[Action, ...]:
    """The actions that belong to these places, in the table's order."""
    return tuple(action for action in ACTIONS if action.where in places)


def bindings(*places: str) -> list[Binding]:
    """Textual's bindings for the actions of these places. Keys have ids, so that a keymap can change them."""
    return [
        Binding(
            action.keys, action.id, action.label, show=False, priority=action.always, id=f"{action.where}.{action.id}"
        )
        for action in of(*places)
    ]


def each_key(action: Action) -> list[str]:
    """The action's keys, each as people write it: `?` and `f1`."""
    return [_SHOWN_KEYS.get(key, key) for key in action.keys.split(",")]


def shown_keys(action: Action) -> str:
    """The action's keys in one text: `? f1`."""
    return " ".join(each_key(action))


def shown_key(action: Action) -> str:
    """The key that the footer shows."""
    first = action.keys.split(",")[0]
    return _SHOWN_KEYS.get(first, first)

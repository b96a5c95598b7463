"""One table of actions: whatever is in it can be done, and whatever can be done is in it."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import pytest
from textual.binding import Binding

from labtui.cli.main import SCREEN_OPTIONS
from labtui.tui import actions, keys_document
from labtui.tui.app import LabApp
from labtui.tui.lines import cells
from labtui.tui.screens.compare import CompareScreen
from labtui.tui.screens.framed import Framed
from labtui.tui.screens.help import KeyList
from labtui.tui.screens.lab import LabScreen
from labtui.tui.screens.machine import MachineScreen
from labtui.tui.screens.run import RunScreen
from labtui.tui.screens.runs import RunsScreen
from labtui.tui.screens.simulate import SimulateScreen
from labtui.tui.widgets.frame import footer_line
from labtui.tui.widgets.pane import Pane

ROOT = Path(__file__).parents[2]
OWNERS = {
    actions.APP: (LabApp,), actions.SCREEN: (Framed,), actions.LAB: (LabScreen,), actions.RUN: (RunScreen, LabApp),
    actions.COMPARE: (CompareScreen,), actions.MACHINE: (MachineScreen,),
    actions.LOG: (RunScreen,), actions.TIME: (RunScreen,),
    actions.RUNS: (RunsScreen,), actions.SIMULATE: (SimulateScreen,), actions.PANE: (RunScreen,), actions.LIST: (Pane,),
}  # fmt: skip
TOGETHER = [
    (actions.LAB, actions.LIST, actions.SCREEN, actions.APP),
    (actions.LOG, actions.TIME, actions.RUN, actions.PANE, actions.LIST, actions.SCREEN, actions.APP),
    (actions.RUNS, actions.LIST, actions.SCREEN, actions.APP),
    (actions.SIMULATE, actions.APP),
    (actions.COMPARE, actions.LIST, actions.SCREEN, actions.APP),
    (actions.MACHINE, actions.LIST, actions.SCREEN, actions.APP),
]
"""Places whose keys work at the same time."""


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: f"{action.where}.{action.id}")
def test_every_action_has_its_method(action: actions.Action) -> None:
    method = f"action_{action.id.partition('(')[0]}"
    owners = OWNERS[action.where]
    if action.where == actions.LIST:
        assert all(hasattr(owner, method) for owner in owners)
    else:
        assert any(hasattr(owner, method) for owner in owners)


@pytest.mark.parametrize("places", TOGETHER)
def test_no_key_means_two_things_at_once(places: tuple[str, ...]) -> None:
    for one, other in combinations(actions.of(*places), 2):
        assert not {*one.keys.split(",")} & {*other.keys.split(",")}, (one.id, other.id)


def test_screens_bind_nothing_beside_the_table() -> None:
    ids = {f"{action.where}.{action.id}" for action in actions.ACTIONS}
    for owner in (LabApp, Framed, LabScreen, RunScreen, RunsScreen, SimulateScreen, CompareScreen, MachineScreen, Pane):
        for binding in owner.__dict__.get("BINDINGS", ()):
            assert isinstance(binding, Binding) and binding.id in ids


@pytest.mark.parametrize("places", TOGETHER)
def test_help_names_every_action_of_a_screen(places: tuple[str, ...]) -> None:
    text = "\n".join("".join(piece for piece, _ in line) for line in KeyList(places).body(100))
    for action in actions.of(*places):
        assert action.help[:60] in text
        assert actions.shown_keys(action) in text


@pytest.mark.parametrize("width", [10, 40, 80, 160])
@pytest.mark.parametrize("places", TOGETHER)
def test_the_footer_fits_and_keeps_the_way_out(places: tuple[str, ...], width: int) -> None:
    line = footer_line([action for action in actions.of(*places) if action.label], width)
    assert cells(line) == width
    if width >= 40:
        text = "".join(piece for piece, _ in line)
        assert "? keys" in text and "q leave" in text


def test_help_sentences_have_one_form() -> None:
    for action in actions.ACTIONS:
        assert action.help and not action.help.endswith(".")


def test_the_document_of_keys_is_made_from_the_table() -> None:
    written = (ROOT / "docs/keys.md").read_text()
    assert written == keys_document.text(), "python -m labtui.tui.keys_document > docs/keys.md"


def test_the_keys_that_the_readme_names_exist() -> None:
    section = (ROOT / "README.md").read_text().partition("## The terminal UI\n")[2].partition("\n## ")[0]
    table = section.partition("| key | does |")[2].partition("\n\n")[0]
    keys = [row.split("|")[1] for row in table.split("\n") if row.startswith("|")]
    named = re.findall(r"`([^`]+)`", " ".join(keys))
    known = {key for action in actions.of(actions.SCREEN, actions.APP) for key in actions.each_key(action)}
    assert set(named) <= known
    assert len(named) >= 5 or not section
    assert all(option in section for option in SCREEN_OPTIONS) or not section

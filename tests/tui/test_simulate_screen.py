"""The Simulate screen: its settings and lines as pure functions, then the screen itself over an app of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from small_lab import screen_text, stopped, until, until_shown
from textual.app import App
from textual.pilot import Pilot

from labtui.catalog.manifest import Experiment
from labtui.theory.pipeline.gantt import fit
from labtui.theory.pipeline.order import OrderError
from labtui.theory.pipeline.schedules import SCHEDULES
from labtui.tui import app as lab_app
from labtui.tui import plain, schedule_lines, schedule_settings, schedule_words, simulating
from labtui.tui.app import LabApp
from labtui.tui.lines import cells
from labtui.tui.messages import Noticed
from labtui.tui.schedule_settings import Settings, SettingsError
from labtui.tui.schedule_study import OPTIMAL, Refused, Study, Wanted, picture
from labtui.tui.screens.simulate import SimulateScreen
from labtui.tui.simulating import Optimised, write_trace
from labtui.tui.theme import THEME
from labtui.tui.widgets.gantt import Gantt

few = examples(max_examples=50)


def studied(settings: Settings, name: str = "1f1b") -> Study:
    [study] = picture(Wanted(replace(settings, schedule=name), 70)).studies
    assert isinstance(study, Study)
    return study


def built(gantt: Gantt, width: int, height: int) -> list[str]:
    lines = gantt.build(width, height)
    return ["".join(text for text, _ in line) for line in lines]


# Settings


def test_keys_change_sizes_and_costs_down_to_their_least() -> None:
    settings = Settings()
    assert schedule_settings.step(settings, "p", 1).devices == 5
    assert schedule_settings.step(replace(settings, microbatches=1), "m", -1).microbatches == 1
    assert schedule_settings.step(settings, "comm", 1).comm == 0.5
    assert schedule_settings.step(settings, "comm", -1).comm == 0
    backward = schedule_settings.step(settings, "B", 1)
    assert (backward.whole_backward, backward.input, backward.weight) == (2.5, 1.25, 1.25)
    assert schedule_settings.step(backward, "W", -1).whole_backward == 2.0
    assert schedule_settings.step(replace(settings, schedule="looped-bfs"), "v", 1).virtual == 3
    with pytest.raises(SettingsError, match="1f1b has 1 stage per device"):
        schedule_settings.step(settings, "v", 1)


def test_text_gives_sizes_costs_limit_and_slow_stages() -> None:
    told = schedule_settings.parse("p=2, m=5 F=1.5 I=1 W=0.5 comm=0.25 limit=3 stage1=2", Settings())
    assert (told.devices, told.microbatches, told.forward, told.comm, told.limit) == (2, 5, 1.5, 0.25, 3)
    assert (told.whole_backward, told.slow) == (1.5, ((1, 2.0),))
    assert told.costs(1, 2).stages == (1.0, 2.0)
    assert schedule_settings.parse("m=9", told).whole_backward == 1.5
    assert schedule_settings.parse("B=3", told).input == 1.5


@given(
    st.builds(
        Settings, devices=st.integers(1, 99), microbatches=st.integers(1, 99), virtual=st.integers(1, 9),
        forward=st.integers(0, 9).map(lambda n: n / 4), input=st.integers(0, 9).map(lambda n: n / 4),
        weight=st.integers(0, 9).map(lambda n: n / 4), comm=st.integers(0, 9).map(lambda n: n / 4),
        limit=st.none() | st.integers(1, 9).map(lambda n: n / 4),
    )
)  # fmt: skip
def test_what_the_dialog_shows_can_be_typed(settings: Settings) -> None:
    assert schedule_settings.parse(settings.text(), settings) == settings


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("p=0", "p is at least 1, not 0"),
        ("m=x", "m is a whole number, not 'x'"),
        ("F=-1", "F is a finite number of at least 0, not -1"),
        ("F=nan", "F is a finite number"),
        ("q=3", "'q=3' isn't understood"),
        ("m", "'m' isn't understood"),
        ("m=3 m=4", "m is given twice"),
        ("B=1 I=3", "I=3 is a part of the whole backward B=1"),
        ("limit=0", "above 0 micro-batches"),
        ("comm=fast", "'fast' isn't a number for comm"),
    ],
)
def test_bad_text_gets_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        schedule_settings.parse(text, Settings())
    assert sentence in str(refused.value) and "\n" not in str(refused.value)


# A moment


def test_a_moment_tells_what_each_device_does_and_waits_for() -> None:
    study = studied(Settings())
    says = schedule_words.in_full
    assert says(study, 2, 6.0, 200) == "GPU2: B0 of stage 2, micro-batch 0, 6 to 8 (backward)"
    assert says(study, 0, 4.0, 200) == (
        "GPU0: waits from 4 to 10 for GPU1's B0 of stage 1 to begin B0 of stage 0; "
        "F4 of stage 0 could begin, but comes later in the order"
    )
    assert says(study, 0, 4.0, 60) == "GPU0: waits from 4 to 10 for GPU1's B0 of stage 1"
    assert says(study, 3, 30.0, 200) == "GPU3: done since 27"
    assert says(study, 3, 0.0, 200) == "GPU3: waits from 0 to 3 for GPU2's F0 of stage 2 to begin F0 of stage 3"
    slow = studied(Settings(comm=0.5))
    assert "from 1 to 1.5" not in says(slow, 1, 1.0, 200)
    assert says(slow, 1, 1.0, 200).startswith("GPU1: waits from 0 to 1.5 for GPU0's F0 of stage 0 (sent at 1)")


def test_both_operations_of_a_pair_are_told() -> None:
    study = studied(Settings(), "dualpipe")
    pair = next(op for op in study.ops[0] if op.pair is not None)
    told = schedule_words.in_full(study, 0, pair.start, 200)
    assert f"{pair.kind}{pair.microbatch} of stage" in told and "at the same time B" in told


@few
@given(st.sampled_from(sorted(SCHEDULES)), st.integers(1, 5), st.integers(1, 9), st.integers(0, 2), st.data())
def test_at_every_moment_a_device_works_waits_or_is_done(
    name: str, p: int, m: int, comm: int, data: st.DataObject
) -> None:
    [study] = picture(Wanted(Settings(name, devices=p, microbatches=m, comm=comm / 2), 70)).studies
    if isinstance(study, Refused):
        return
    t = data.draw(st.sampled_from(study.moments))
    for device in range(p):
        doing = study.doing(device, t)
        assert 0 <= doing.held <= study.timeline.peak_in_flight[device]
        if doing.ops:
            assert all(op.start <= t < op.end for op in doing.ops)
        elif doing.wait is not None:
            assert doing.wait.start <= t < doing.wait.end
        else:
            assert study.timeline.ends[device][-1] <= t


def test_moments_are_walked_one_by_one() -> None:
    study = studied(Settings())
    assert [study.next_moment(t, 1) for t in (0.0, 0.5, 33.0)] == [1.0, 1.0, None]
    assert [study.next_moment(t, -1) for t in (0.0, 0.5, 33.0)] == [None, 0.0, 31.0]
    assert [study.next_start(0, t, 1) for t in (3.0, 10.0)] == [10.0, 12.0]
    assert study.next_start(0, 10.0, -1) == 3.0


# Lines

settings_of_all_kinds = st.builds(
    Settings, schedule=st.sampled_from(sorted(SCHEDULES)), against=st.sampled_from(["", *sorted(SCHEDULES)]),
    devices=st.integers(1, 12), microbatches=st.integers(1, 14), virtual=st.integers(1, 3),
    forward=st.sampled_from([0.0, 1.0, 1.3]), weight=st.sampled_from([0.0, 1.0, 0.7]),
    comm=st.sampled_from([0.0, 0.5, 1 / 3]), limit=st.sampled_from([None, None, 4.0]),
    slow=st.sampled_from([(), ((1, 2.0),)]), link_busy=st.booleans(), per_device=st.booleans(),
)  # fmt: skip


@few
@given(
    settings_of_all_kinds, st.integers(1, 130), st.integers(1, 45), st.booleans(), st.booleans(),
    st.floats(0, 1), st.integers(0, 11),
)  # fmt: skip
def test_every_line_is_as_wide_as_the_screen(
    settings: Settings, width: int, height: int, zoomed: bool, by_stage: bool, share: float, device: int
) -> None:
    gantt = Gantt()
    gantt.settings = settings
    signs = schedule_lines.frame(width, settings, by_stage=by_stage).signs
    gantt.picture = picture(Wanted(settings, signs, zoomed, by_stage))
    gantt.t, gantt.device = share * gantt.picture.total, min(device, settings.devices - 1)
    lines = gantt.build(width, height)
    assert len(lines) <= height
    for line in lines:
        assert cells(line) == width, "".join(text for text, _ in line)
        assert all(text.isprintable() for text, _ in line)


def test_the_gantt_is_the_lessons_and_ascii_keeps_its_signs() -> None:
    gantt = Gantt()
    gantt.picture = picture(Wanted(Settings(against="gpipe"), 60))
    text = built(gantt, 80, 22)
    assert "│0123......aa4bb5cc6dd7ee.ff.gg.hh│    4" in text[3]
    assert text[1].endswith("total 33 · bubble 27.3 % ─")
    assert "│0123456..7..aabb" not in text[8] and "gpipe" in text[7]
    assert plain.to_ascii(text[3]).startswith(">GPU0|0123......aa4bb5cc6dd7ee.ff.gg.hh|")
    assert plain.to_ascii("".join(text)).isascii() and "?" not in plain.to_ascii("".join(text))


def test_eight_devices_leave_room_for_figures_on_a_small_screen() -> None:
    gantt = Gantt()
    gantt.settings = Settings(devices=8, microbatches=16, comm=0.5)
    gantt.picture = picture(Wanted(gantt.settings, 68))
    text = "\n".join(built(gantt, 80, 22))
    assert all(f"GPU{device}│" in text for device in range(8))
    assert "of the total" in text and "over the ideal" in text and "hops" in text and "8 7 6 5 4 3 2 1" in text


def test_figures_stand_beside_the_formula_and_say_why_they_differ() -> None:
    figures = schedule_words.figures(picture(Wanted(Settings(comm=0.5), 70)), 100)
    text = "\n".join("".join(piece for piece, _ in line).rstrip() for line in figures)
    assert "41.5 % of the total" in text and "70.8 % over the ideal" in text and "16 hops" in text
    assert "total 33, but simulated 41: transfers take 0.5 each" in text
    both = schedule_words.figures(picture(Wanted(Settings(schedule="interleaved-1f1b", against="1f1b"), 70)), 100)
    assert "not the same work" in "".join(piece for line in both for piece, _ in line)


def test_a_long_gantt_is_fitted_and_scrolled_when_zoomed() -> None:
    settings = Settings(devices=8, microbatches=64)
    whole, zoomed = (picture(Wanted(settings, 60, zoomed)) for zoomed in (False, True))
    assert whole.columns <= 60 < zoomed.columns
    assert zoomed.scale == fit([studied(settings).timeline])
    gantt = Gantt()
    gantt.settings, gantt.picture, gantt.t = settings, zoomed, zoomed.total
    text = built(gantt, 72, 20)
    assert "pp" not in text[2] and f"{zoomed.total:.6g}↓" in text[2]
    gantt.picture = picture(Wanted(Settings(), 100, True))
    assert gantt.picture.columns == 99


def test_too_much_for_this_screen_is_said() -> None:
    [large] = picture(Wanted(Settings(devices=100, microbatches=10_000), 70)).studies
    [huge] = picture(Wanted(Settings(devices=1000, microbatches=10_000), 70)).studies
    assert isinstance(large, Refused) and "2,000,000 operations are too many for this screen" in large.sentence
    assert isinstance(huge, Refused) and "20,000,000 operations" in huge.sentence


def test_only_what_has_changed_is_simulated_anew() -> None:
    before = picture(Wanted(Settings(against="gpipe"), 70))
    after = picture(Wanted(Settings(schedule="zb-h1", against="gpipe"), 50, True), before)
    assert after.studies[1] is before.studies[1]
    assert picture(Wanted(Settings(against="gpipe", comm=1.0), 70), before).studies[1] is not before.studies[1]


# The screen


class Alone(App[None]):
    """The screen without the rest of labtui."""

    CSS_PATH: ClassVar[str] = str(Path(lab_app.__file__).parent / LabApp.CSS_PATH)

    def __init__(self) -> None:
        super().__init__()
        self.register_theme(THEME)
        self.theme = THEME.name
        self.simulate = SimulateScreen()

    def on_mount(self) -> None:
        self.push_screen(self.simulate)

    def on_noticed(self, event: Noticed) -> None:
        self.simulate.notice.say(event.sentence, bad=event.bad)


async def settled(pilot: Pilot[Any]) -> str:
    """Waits until what the settings ask for is on the screen."""
    screen = pilot.app.simulate  # type: ignore[attr-defined]

    def shown() -> bool:
        drawn = screen.gantt.picture
        return drawn is not None and drawn.wanted is screen._wanted and not screen._asked

    await until(pilot, shown, "the picture of the settings")
    await pilot.pause()
    return screen_text(pilot.app)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(80, 24), (40, 12)])
async def test_keys_play_with_the_schedule(size: tuple[int, int]) -> None:
    async with Alone().run_test(size=size) as pilot:
        assert "│0123......aa4bb5cc6dd7ee.ff.gg.hh│" in await settled(pilot)
        await pilot.press("c", "p", "p", "P", "m")
        text = await settled(pilot)
        assert "p 5" in text and "m 9" in text and "comm 0.5" in text
        await pilot.press("C", "P", "M", "tab")
        assert "─ interleaved-1f1b ─" in await settled(pilot)
        await pilot.press("shift+tab", "right", "right", "right", "right", "[", "]")
        text = await settled(pilot)
        assert "t = 10 " in text and "B0 of stage 0" in text
        await pilot.press("home", "left", "down")
        assert "GPU1: waits from 0 to 1" in await settled(pilot)
        await pilot.press("end")
        assert "t = 31 " in await settled(pilot)


async def test_two_schedules_stand_above_each_other() -> None:
    async with Alone().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("a", "down", "down", "enter")
        await until_shown(pilot, "─ gpipe")
        text = await settled(pilot)
        assert text.index("─ 1f1b") < text.index("─ gpipe") and "4 3 2 1" in text and "8 on e" in text
        await pilot.press("A")
        text = await settled(pilot)
        assert text.index("─ gpipe") < text.index("─ 1f1b")
        await pilot.press("s", "down", "enter")  # what is below comes up, and nothing is left below
        await until(pilot, lambda: "─ gpipe" not in screen_text(pilot.app), "one schedule alone")  # type: ignore[arg-type]


async def test_what_cannot_be_is_said_and_the_keys_go_on() -> None:
    async with Alone().run_test(size=(80, 24)) as pilot:
        pilot.app.simulate.change(Settings(schedule="dualpipe", devices=3))  # type: ignore[attr-defined]
        text = await settled(pilot)
        assert "even" in text and "GPU0│" not in text
        await pilot.press("right", "down", "z", "r", "r", "t", "p")
        assert "GPU3│" in await settled(pilot)
        await pilot.press("v")
        await until_shown(pilot, "dualpipe has 1 stage per device")
        await pilot.press("e", "ctrl+u", *"m=x", "enter")
        await until_shown(pilot, "m is a whole number, not 'x'")
        await pilot.press("e", "ctrl+u", *"m=12", "enter")
        await until_shown(pilot, "m 12")
        await pilot.press("l", "3", "enter")
        await until_shown(pilot, "limit 3")
        await until_shown(pilot, "above the memory limit of 3")


async def test_what_finds_no_room_can_be_scrolled_to() -> None:
    async with Alone().run_test(size=(80, 24)) as pilot:
        pilot.app.simulate.change(Settings(devices=8))  # type: ignore[attr-defined]
        text = await settled(pilot)
        assert "page down: more" in text and "2104.04473" not in text
        await pilot.press("pagedown", "pagedown")
        await until_shown(pilot, "2104.04473")
        assert "page up" in screen_text(pilot.app)  # type: ignore[arg-type]


async def test_large_schedules_are_simulated_in_a_thread() -> None:
    async with Alone().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        pilot.app.simulate.change(Settings(devices=8, microbatches=250))  # type: ignore[attr-defined]
        assert "m 250" in await settled(pilot)
        await pilot.press("m", "m", "m")
        text = await settled(pilot)
        assert "m 253" in text and "total 780" in text


async def test_a_click_chooses_device_and_moment() -> None:
    async with Alone().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert await pilot.click(Gantt, offset=(6 + 11, 4))
        await until_shown(pilot, "GPU1: B1 of stage 1, micro-batch 1, 11 to 13")


async def test_the_trace_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    async with Alone().run_test(size=(100, 24)) as pilot:
        await settled(pilot)
        await pilot.press("t")
        await until_shown(pilot, "1f1b-p4-m8.perfetto.json is written")
    study = studied(Settings())
    assert isinstance(write_trace(folder, study), Noticed)
    write_trace(folder, studied(Settings(comm=1.0)))
    assert sorted(file.name for file in folder.iterdir()) == [
        "1f1b-p4-m8-2.perfetto.json",
        "1f1b-p4-m8.perfetto.json",
    ]


async def test_a_search_can_be_stopped_and_what_it_found_stands_above(monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(studied(Settings(), "zb-h1"), name=OPTIMAL, note="found by a test")
    stopped_by_a_key = threading.Event()

    def optimise(post: simulating.Post, settings: Settings, stop: threading.Event) -> Optimised:
        post(simulating.Searched("searching for 1 s: best 30, none below 24; esc keeps the best"))
        assert stop.wait(20)
        stopped_by_a_key.set()
        return Optimised(settings, found, "optimal: total 30")

    monkeypatch.setattr("labtui.tui.screens.simulate.optimise", optimise)
    async with Alone().run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.press("o")
        await until_shown(pilot, "best 30, none below 24")
        await pilot.press("escape")
        await until_shown(pilot, "─ optimal")
        assert stopped_by_a_key.is_set()
        text = await settled(pilot)
        assert text.index("─ optimal") < text.index("─ 1f1b") and "optimal: total 30" in text
        await pilot.press("m")
        assert "optimal" not in await settled(pilot)
        stopped_by_a_key.clear()
        await pilot.press("o", "tab")  # what was searched for is no longer what is asked for
        await until(pilot, stopped_by_a_key.is_set, "the end of the search")
        assert "optimal" not in await settled(pilot)


def test_a_search_that_cannot_be_gets_a_sentence() -> None:
    try:
        outcome = simulating.optimise(lambda message: None, Settings(limit=0.5), threading.Event())
    except OrderError:
        pytest.fail("an error instead of a sentence")
    assert isinstance(outcome, Optimised) and outcome.found is None
    assert outcome.sentence and "\n" not in outcome.sentence


@pytest.fixture
def lab_over(own_folders: Path, lab: Experiment) -> Iterator[LabApp]:
    with stopped(LabApp(own_folders)) as app:
        yield app


async def test_digit_five_shows_it_and_it_keeps_its_state(lab_over: LabApp) -> None:
    async with lab_over.run_test(size=(80, 24)) as pilot:
        await until_shown(pilot, "A lab test")
        await pilot.press("5")
        await until_shown(pilot, "│0123......aa4bb5cc6dd7ee.ff.gg.hh│")
        await pilot.press("question_mark")
        await until_shown(pilot, "let a solver find the best schedule")
        assert "one line up" not in screen_text(lab_over)
        await pilot.press("escape", "m", "1")
        await until_shown(pilot, "A lab test")
        await pilot.press("5")
        await until_shown(pilot, "m 9")
        await pilot.press("escape")
        await until_shown(pilot, "A lab test")

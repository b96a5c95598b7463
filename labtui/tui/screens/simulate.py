"""5 Simulate: a pipeline schedule as a Gantt to play with. Imported when it is first shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.widget import Widget

from labtui.theory.pipeline.schedules import SCHEDULES
from labtui.theory.pipeline.words import number
from labtui.tui import actions, schedule_lines, schedule_settings, workers
from labtui.tui.schedule_settings import Settings, SettingsError
from labtui.tui.schedule_study import Picture, Study, Wanted, picture
from labtui.tui.screens.framed import Framed
from labtui.tui.simulating import Optimised, Pictured, Searched, Simulator, optimise, write_trace
from labtui.tui.widgets.gantt import Gantt

IN_PLACE = 3_000
"""Operations that are simulated on the screen's own loop: at most some tens of milliseconds. More go to a thread."""
SEARCHING = ("v-half", "v-min", "zb-1p", "zb-2p")
"""Schedules that are found by a search: they go there unless they are small."""
SMALL = 200


class SimulateScreen(Framed):
    """One schedule, or two above each other, and a cursor in time."""

    BINDINGS: ClassVar[list[BindingType]] = [*actions.bindings(actions.SIMULATE)]
    name_on_title = "simulate"
    places = (actions.SIMULATE, actions.APP)
    general = (actions.APP,)

    def __init__(self) -> None:
        super().__init__()
        self.gantt = Gantt()
        self.settings = Settings()
        self._zoomed = self._by_stage = False
        self._found: Study | None = None
        self._asked = False
        self._wanted: Wanted | None = None
        self._simulator = Simulator(self.post_message)
        self._search: threading.Event | None = None
        """Set to stop the search that is going on."""

    def compose_body(self) -> Iterable[Widget]:
        yield self.gantt

    def on_unmount(self) -> None:
        self._simulator.stop()
        self._stop_search()

    def on_resize(self, event: events.Resize) -> None:
        self._ask()

    def go_back(self) -> None:
        self.app.action_go_back()  # type: ignore[attr-defined]

    # From settings to a picture

    def change(self, settings: Settings) -> None:
        """Shows these settings."""
        if settings == self.settings:
            return
        self._stop_search()
        self._found = None
        self.settings = self.gantt.settings = settings
        if self.notice.sentence:
            self.notice.say("")
        self._ask()

    def _ask(self) -> None:
        """Keys that have come meanwhile are done first: only what they lead to is simulated."""
        if not self._asked:
            self._asked = True
            self.call_later(self._answer)

    def _answer(self) -> None:
        self._asked = False
        frame = schedule_lines.frame(
            self.size.width, self.settings, by_stage=self._by_stage,
            stages=self._found.timeline.order.stages if self._found is not None else 0,
        )  # fmt: skip
        wanted = Wanted(self.settings, frame.signs, self._zoomed, self._by_stage, self._found)
        self._wanted = wanted
        most = SMALL if any(name in SEARCHING for name in wanted.names) else IN_PLACE
        if wanted.operations <= most:
            self._show(picture(wanted, self.gantt.picture))
        else:
            self.gantt.note = "simulating"
            self.gantt.redraw()
            self._simulator.ask(wanted, self.gantt.picture)

    @on(Pictured)
    def _show_pictured(self, event: Pictured) -> None:
        if event.picture.wanted is self._wanted:
            self._show(event.picture)

    def _show(self, picture: Picture) -> None:
        self.gantt.picture, self.gantt.note = picture, ""
        self.gantt.t = min(self.gantt.t, picture.total)
        self.gantt.device = min(self.gantt.device, self.settings.devices - 1)
        self.gantt.redraw()

    # Sizes and costs

    def action_step(self, what: str, by: int) -> None:
        try:
            self.change(schedule_settings.step(self.settings, what, by))
        except SettingsError as error:
            self.notice.say(str(error), bad=True)

    def action_edit(self) -> None:
        self._ask_text(
            "Sizes and costs: p m v, F B or I W, FB, comm, limit, stage3=1.5",
            self.settings.text(), lambda text: schedule_settings.parse(text, self.settings),
        )  # fmt: skip

    def action_edit_limit(self) -> None:
        limit = self.settings.limit
        self._ask_text(
            "Memory limit, in a device's whole shares of a micro-batch; empty for none",
            "" if limit is None else number(limit),
            lambda text: replace(self.settings, limit=schedule_settings.limit(text)),
        )

    def _ask_text(self, question: str, text: str, change: Callable[[str], Settings]) -> None:
        from labtui.tui.screens.ask import Ask

        def answer(text: str | None) -> None:
            if text is None:
                return
            try:
                self.change(change(text))
            except SettingsError as error:
                self.notice.say(str(error), bad=True)

        self.app.push_screen(Ask(question, text), answer)

    def action_turn_links(self) -> None:
        self.change(replace(self.settings, link_busy=not self.settings.link_busy))
        self.notice.say(f"a link carries {'one transfer' if self.settings.link_busy else 'all transfers'} at a time")

    def action_turn_costs(self) -> None:
        self.change(replace(self.settings, per_device=not self.settings.per_device))
        whose = "all stages of a device together" if self.settings.per_device else "one stage"
        self.notice.say(f"costs are those of {whose}")

    # Schedules

    def action_next_pane(self) -> None:
        self._turn_schedule(1)

    def action_previous_pane(self) -> None:
        self._turn_schedule(-1)

    def _turn_schedule(self, by: int) -> None:
        names = [name for name in SCHEDULES if name != self.settings.against]
        self._take_upper(names[(names.index(self.settings.schedule) + by) % len(names)])

    def _take_upper(self, name: str) -> None:
        against = self.settings.against if self.settings.against != name else ""
        self.change(replace(self.settings, schedule=name, against=against))

    def action_choose(self) -> None:
        from labtui.tui.screens.choose_schedule import ChooseSchedule

        def answer(name: str | None) -> None:
            if name is not None:
                self._take_upper(name)

        self.app.push_screen(ChooseSchedule("Schedules", self.settings.schedule), answer)

    def action_against(self) -> None:
        from labtui.tui.screens.choose_schedule import ChooseSchedule

        def answer(name: str | None) -> None:
            if name is not None:
                self.change(replace(self.settings, against=name))

        upper = self.settings.schedule
        self.app.push_screen(ChooseSchedule(f"Against {upper}", self.settings.against, without=upper), answer)

    def action_swap(self) -> None:
        if not self.settings.against:
            self.notice.say("there is one schedule only: a takes another one", bad=True)
            return
        self.change(replace(self.settings, schedule=self.settings.against, against=self.settings.schedule))

    # What is looked at

    def action_zoom(self) -> None:
        self._zoomed = not self._zoomed
        self._ask()

    def action_turn_rows(self) -> None:
        self._by_stage = not self._by_stage
        self._ask()

    def action_walk(self, by: int) -> None:
        """To the next moment at which anything begins or ends."""
        self._go_to([study.next_moment(self.gantt.t, by) for study in self._shown], by)

    def action_walk_operations(self, by: int) -> None:
        """To the next thing that the chosen device begins."""
        device = self.gantt.device
        self._go_to([study.next_start(device, self.gantt.t, by) for study in self._shown[:1]], by)

    def _go_to(self, found: Iterable[float | None], by: int) -> None:
        moments = [t for t in found if t is not None]
        if moments:
            self._look(min(moments) if by > 0 else max(moments), self.gantt.device)

    def action_go_first(self) -> None:
        self._look(0.0, self.gantt.device)

    def action_go_last(self) -> None:
        # The last moment at which anything goes on, for at the end nothing does.
        last = [study.next_moment(study.timeline.total, -1) for study in self._shown]
        self._look(max((t for t in last if t is not None), default=0.0), self.gantt.device)

    def action_move(self, by: int) -> None:
        self._look(self.gantt.t, max(0, min(self.gantt.device + by, self.settings.devices - 1)))

    def action_page(self, by: int) -> None:
        self.gantt.scroll_figures(by)

    @on(Gantt.Pointed)
    def _look_there(self, event: Gantt.Pointed) -> None:
        self._look(event.t, event.device)

    def _look(self, t: float, device: int) -> None:
        self.gantt.t, self.gantt.device = t, device
        self.gantt.redraw()

    @property
    def _shown(self) -> tuple[Study, ...]:
        return self.gantt.picture.shown if self.gantt.picture is not None else ()

    # What takes longer

    def action_optimise(self) -> None:
        if self._search is not None:
            self.notice.say("it is being searched already: esc keeps the best so far")
            return
        stop = self._search = threading.Event()
        settings = self.settings
        self.notice.say("the best schedule for these costs is being searched; esc keeps the best so far")
        workers.in_thread(self.post_message, lambda: optimise(self.post_message, settings, stop))

    @on(Searched)
    def _show_search(self, event: Searched) -> None:
        if self._search is not None and not self._search.is_set():
            self.notice.say(event.sentence)

    @on(Optimised)
    def _show_optimum(self, event: Optimised) -> None:
        if event.settings is not self.settings:
            return  # something else has been chosen meanwhile
        self._search = None
        self.notice.say(event.sentence, bad=event.found is None)
        if event.found is not None:
            self._found = event.found
            self._ask()

    def _stop_search(self) -> None:
        if self._search is not None:
            self._search.set()
            self._search = None

    def action_back(self) -> None:
        if self._search is not None:
            self._search.set()
            self.notice.say("the search ends with the best so far")
        else:
            super().action_back()

    def action_write_trace(self) -> None:
        shown = self._shown
        if not shown:
            self.notice.say("there is no schedule to write", bad=True)
            return
        folder = Path.cwd()
        workers.in_thread(self.post_message, lambda: write_trace(folder, shown[0]), must_finish=True)

"""What the Run screen's keys do with its logs: search, filter, the first traceback, the pager."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from textual import on
from textual.message import Message

from labtui.runs.watch import Log
from labtui.tui.log_lines import MERGED
from labtui.tui.log_reader import TRACEBACK
from labtui.tui.log_search import PatternError, pattern
from labtui.tui.messages import LogFound
from labtui.tui.screens.framed import Framed
from labtui.tui.widgets.filter import FilterLine
from labtui.tui.widgets.log import LogPane

SEARCH_HINT = "search the log: a text, or /a regular expression/"
FILTER_HINT = "show only lines with: a text, or /a regular expression/"


class LogKeys(Framed):
    """A screen with a log pane. The line to type into is made when it is first needed."""

    log_pane: LogPane

    class TracebackWanted(Message):
        """The first traceback in these logs is wanted."""

        def __init__(self, logs: list[tuple[str, Path]]) -> None:
            super().__init__()
            self.logs = logs

    class PagerWanted(Message):
        """A file should be shown in the user's pager."""

        def __init__(self, path: Path) -> None:
            super().__init__()
            self.path = path

    def __init__(self) -> None:
        super().__init__()
        self._asked: FilterLine | None = None
        self._asked_for: Callable[[str], None] = self._search_for

    @property
    def logs(self) -> tuple[Log, ...]:
        """Those that the run has."""
        raise NotImplementedError

    # Search and filter

    def action_search(self) -> None:
        self._ask(SEARCH_HINT, self._search_for)

    def action_show_only(self) -> None:
        self._ask(FILTER_HINT, self._filter_by)

    def _ask(self, hint: str, what: Callable[[str], None]) -> None:
        if self._asked is None:
            self._asked = FilterLine(hint)
            self.mount(self._asked, before=self.notice)
        self._asked_for = what
        self._asked.placeholder, self._asked.value = hint, ""
        self.notice.say("")
        self._asked.open()

    @on(FilterLine.Typed)
    def _typed(self) -> None:
        if self._asked is not None and self._asked.has_focus:
            self._answered(self._asked.text)

    @on(FilterLine.Left)
    def _left(self) -> None:
        line = self._asked
        if line is None:
            return
        line.display = False
        self.log_pane.focus()
        self._answered(line.text, go=self._asked_for == self._search_for)

    def _answered(self, text: str, *, go: bool = False) -> None:
        def answer() -> None:
            self._asked_for(text)
            if text and go:
                self.log_pane.find(1)

        # As if the pane had done it: what a screen makes its child say rises no higher than to the screen.
        self.log_pane.call_later(answer)

    def _search_for(self, text: str) -> None:
        try:
            self.log_pane.search(pattern(text) if text else None)
        except PatternError as error:
            self.log_pane.search(None)
            self.notice.say(str(error), bad=True)

    def _filter_by(self, text: str) -> None:
        try:
            self.log_pane.show_only(pattern(text) if text else None)
        except PatternError as error:
            self.notice.say(str(error), bad=True)

    def action_find(self, step: int) -> None:
        if self.log_pane.wanted is None:
            self.notice.say("nothing is looked for: / asks what")
        else:
            self.log_pane.find(step)

    def action_first_traceback(self) -> None:
        ranks = [log for log in self.logs if log.name.removesuffix(" stderr").isdigit()]
        shown = self.log_pane.name_shown
        # The one on show first; what torchrun printed comes last: it tells of the ranks' ends at second hand.
        ranks.sort(key=lambda log: log.name != shown)
        others = [log for log in self.logs if log.name == "output"]
        self.post_message(self.TracebackWanted([(log.name, log.path) for log in (*ranks, *others)]))

    def found(self, event: LogFound) -> None:
        """What a search came to."""
        if event.line is None:
            where = "no log has a traceback" if event.wanted == TRACEBACK.text else f"no line has {event.wanted}"
            self.notice.say(where)
            return
        if event.wanted == TRACEBACK.text:
            self.log_pane.show_only(None)
            self.log_pane.search(TRACEBACK)
        self.notice.say("from the log's other end" if event.wrapped else "")
        self.log_pane.found(event)

    # The rest

    def action_wrap(self) -> None:
        self.log_pane.action_wrap()

    def action_follow(self) -> None:
        self.log_pane.action_follow()

    def action_other_stream(self) -> None:
        self.log_pane.action_other_stream()

    def action_open_in_pager(self) -> None:
        name = self.log_pane.name_shown
        path = next((log.path for log in self.logs if log.name == name), None)
        if path is not None:
            self.post_message(self.PagerWanted(path))
        elif name == MERGED:
            self.notice.say("the merged log is no file: a pager shows one rank's")

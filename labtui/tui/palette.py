"""ctrl+p: the table of actions, searchable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from textual.app import App
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.screen import Screen

from labtui.tui import actions
from labtui.tui.actions import Action
from labtui.tui.screens.framed import Framed


class Actions(Provider):
    """Everything that can be done on the screen below, by its help."""

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action, text, do in self._offered():
            score = matcher.match(text)
            if score > 0:
                yield Hit(score, matcher.highlight(text), do, text=text, help=actions.shown_keys(action))

    async def discover(self) -> Hits:
        for action, text, do in self._offered():
            yield DiscoveryHit(text, do, help=actions.shown_keys(action))

    def _offered(self) -> list[tuple[Action, str, Callable[[], Awaitable[object]]]]:
        screen = self.screen
        if not isinstance(screen, Framed):
            return []
        offered: list[tuple[Action, str, Callable[[], Awaitable[object]]]] = []
        for action in actions.of(*screen.places):
            if action.command:
                # An action belongs to the app or to the screen: that is where its method is.
                owner: App[object] | Screen[None] = self.app if action.where == actions.APP else screen
                offered.append((action, action.help, partial(owner.run_action, action.id)))
        return offered

"""Textual's terminal driver, made to survive bytes that are no UTF-8.

A mouse report in the old X10 form holds bytes above 0x7f, and so may whatever a terminal sends when tmux or SSH
attaches again. Textual 8.2.8 decodes its input strictly: one such byte ends the input thread and with it the app
(textual issue 6668).
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import partial

from textual.drivers import linux_driver


def _tolerant_decoder(encoding: str) -> Callable[[], codecs.IncrementalDecoder]:
    """As codecs.getincrementaldecoder, but what can't be decoded becomes U+FFFD."""
    return partial(codecs.getincrementaldecoder(encoding), errors="replace")


class TolerantDriver(linux_driver.LinuxDriver):
    """The driver for terminals on Linux."""

    def run_input_thread(self) -> None:
        # The method looks its decoder up by this name; copying its forty lines would age worse.
        linux_driver.getincrementaldecoder = _tolerant_decoder  # type: ignore[assignment, attr-defined]
        super().run_input_thread()

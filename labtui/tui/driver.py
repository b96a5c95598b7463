"""Textual's terminal driver, made to survive bytes that are no UTF-8, and a terminal that goes.

A mouse report in the old X10 form holds bytes above 0x7f, and so may whatever a terminal sends when tmux or SSH
attaches again. Textual 8.2.8 decodes its input strictly: one such byte ends the input thread and with it the app
(textual issue 6668).

When the terminal hangs up, Textual's writing thread ends with its first failed write, and the app waits for ever at a
full queue that nobody empties: one process is left for each SSH line that drops.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from functools import partial

from textual.drivers import linux_driver
from textual.drivers._writer_thread import WriterThread


def _tolerant_decoder(encoding: str) -> Callable[[], codecs.IncrementalDecoder]:
    """As codecs.getincrementaldecoder, but what can't be decoded becomes U+FFFD."""
    return partial(codecs.getincrementaldecoder(encoding), errors="replace")


class TolerantWriter(WriterThread):
    """Writes as long as there is a terminal; from then on it takes what is written, so that the app can leave."""

    def run(self) -> None:
        try:
            super().run()
        except (OSError, ValueError):  # ValueError: the file was closed
            while self._queue.get() is not None:
                pass


class TolerantDriver(linux_driver.LinuxDriver):
    """The driver for terminals on Linux."""

    def start_application_mode(self) -> None:
        linux_driver.WriterThread = TolerantWriter  # type: ignore[attr-defined]
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def run_input_thread(self) -> None:
        # The method looks its decoder up by this name; copying its forty lines would age worse.
        linux_driver.getincrementaldecoder = _tolerant_decoder  # type: ignore[assignment, attr-defined]
        super().run_input_thread()

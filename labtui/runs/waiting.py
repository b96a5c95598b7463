"""The agent's one place to wait: for signals, the ends of children, the departure of ranks, the sampler's words."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Callable


class Waiting:
    """What has happened to this process and its children; main thread only."""

    def __init__(self) -> None:
        self.stops = 0
        """How often somebody asked to stop (SIGTERM, SIGINT)."""
        self.stacks_wanted = False
        self.ended: dict[int | None, int] = {}
        """pid -> wait status of children that were reaped."""
        self._selector = selectors.DefaultSelector()
        self._watched: int | None = None

    def listen(self) -> None:
        """Installs the handlers; from here on a signal ends a wait."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._selector.register(reader, selectors.EVENT_READ, lambda: self._drain(reader))
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)
        signal.signal(signal.SIGUSR1, self._on_stacks)
        # Handlers rather than SIG_IGN: what is ignored stays ignored in the processes that we start.
        signal.signal(signal.SIGHUP, lambda *_: None)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _on_stop(self, *_: object) -> None:
        self.stops += 1

    def _on_stacks(self, *_: object) -> None:
        self.stacks_wanted = True

    @staticmethod
    def _drain(reader: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(reader, 4096)

    def wait(self, seconds: float) -> None:
        """Sleeps until something happens, at most `seconds`; then reaps what ended."""
        for key, _ in self._selector.select(seconds):
            key.data()
        self.reap()

    def reap(self) -> None:
        """As child subreaper the agent also inherits ranks whose torchrun was killed."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.ended[pid] = status

    def on_end(self, pid: int, then: Callable[[], None]) -> None:
        """Calls `then` once when the process ends, at once, whoever's child it is.

        Raises ProcessLookupError where it is gone already, OSError where the kernel can't tell.
        """
        pidfd = os.pidfd_open(pid)

        def ended() -> None:
            self._selector.unregister(pidfd)
            os.close(pidfd)
            then()

        self._selector.register(pidfd, selectors.EVENT_READ, ended)

    def watch_stream(self, descriptor: int | None) -> None:
        """Also wakes when this descriptor has something to read, in place of the one before."""
        if descriptor == self._watched:
            return
        if self._watched is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(self._watched)
        if descriptor is not None:
            self._selector.register(descriptor, selectors.EVENT_READ, lambda: None)
        self._watched = descriptor

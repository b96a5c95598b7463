"""How a run is being ended: what its agent says of the kill ladder, followed until the run has its last word.

Everything comes from agent.log and status.json; nothing is signalled here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from labtui.runs import state
from labtui.runs.folder import RunFolder
from labtui.runs.ladder import TORCHRUN_GRACE_S
from labtui.runs.tail import LineTail
from labtui.tui.messages import Noticed
from labtui.tui.watcher import Post

GRACE_S = TORCHRUN_GRACE_S + 2
"""So long the ladder waits between SIGTERM and SIGKILL."""
LOOK_S = 0.25
GIVE_UP_S = 60.0

_RUNG = re.compile(r"\d\d:\d\d:\d\d (SIGTERM|SIGKILL) to (.+)")
_STUCK = re.compile(r"\d\d:\d\d:\d\d (pid \d+ does not end: .+)")


def rung(line: str, seconds: float) -> str:
    """A line of agent.log as a sentence, so many seconds after it was written; empty where it is no rung."""
    if stuck := _STUCK.match(line):
        return stuck[1]
    found = _RUNG.match(line)
    if found is None:
        return ""
    if found[1] == "SIGKILL":
        return f"stopping: SIGKILL sent to {found[2]}"
    left = max(GRACE_S - seconds, 0.0)
    return f"stopping: SIGTERM sent to {found[2]}; SIGKILL in {left:.0f} s if it has not ended by then"


def stop(folder: RunFolder, post: Post, wanted: Callable[[], bool]) -> Noticed:
    """Asks the run's agent to end it, posts each rung as Noticed, and returns the end. To be called in a thread.

    Gives up after a minute, or when nobody wants to know any more. Raises ControlError, RecordError, OSError.
    """
    from labtui.runs import control

    tail = LineTail(folder.agent_log, from_end=1)  # behind the last newline there is
    tail.poll()
    control.stop(folder)
    asked = said = f"{folder.id} has been asked to stop"
    post(Noticed(asked))
    began = since = time.monotonic()
    line = ""
    while wanted() and time.monotonic() - began < GIVE_UP_S:
        for raw in tail.poll():
            text = raw.decode(errors="replace")
            if rung(text, 0.0):
                line, since = text, time.monotonic()
        status = state.observe(folder)
        if not status.live:
            return Noticed(f"{folder.id} has ended: {status.state}, {status.reason}")
        sentence = rung(line, time.monotonic() - since)
        if sentence and sentence != said:
            said = sentence
            post(Noticed(sentence))
        time.sleep(LOOK_S)
    return Noticed(said)

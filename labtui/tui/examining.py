"""A look at this machine on a person's wish: the doctor, and the newest profiles. In a thread; draws nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

from labtui.machine import doctor
from labtui.machine.doctor.finding import Finding
from labtui.runs import profile
from labtui.tui.messages import Examined


def examine(root: Path) -> Examined:
    """Has the doctor look at this machine, and reads which profiles runs started here would get. Takes a moment."""
    try:
        profiles, findings = profile.of_this_machine(root, os.environ), doctor.examine(root)
    except OSError as error:
        # Rather than no answer at all, for which the screen would wait.
        profiles, findings = {}, (Finding("doctor", "warn", f"it could not look: {error}"),)
    return Examined(findings, profiles, time.time())

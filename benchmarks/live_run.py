"""A run to be looked at: real, under its real agent and sampler, on 8 GPUs that tests/fake_nvml plays.

One rank reports four series and a line of log twice a second, and prints 50,000 lines a second while the file
`flood` lies in its folder. The sampler measures every half second, as the figures that are wanted are for 2 Hz.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from live_rank import HZ, PAST, SERIES

from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import QUEUED, Request, RunProcess, Status

FAKE = Path(__file__).resolve().parents[1] / "tests/fake_nvml"
NAME = "benchmark"
MANIFEST = """format = 1
title = "A benchmark"
question = "What does looking cost?"
topic = "data"
launch = "python"
devices = ["cpu"]
minutes = 10
""" + "".join(f'[[charts]]\ntitle = "{name}"\nx = "step"\ny = "{name}"\n' for name in SERIES)

LABTUI = "import sys; from labtui.cli.main import main; sys.exit(main([]))"
AT_2_HZ = """
import gc, sys
gc.disable()  # as the command line has it until the first paint
from labtui.tui import sampling, watcher
watcher.LIVE_S = watcher.TICK_S = watcher.LOG_S = sampling.INTERVAL_S = 0.5
from labtui.cli.main import main
sys.exit(main([]))
"""
"""labtui, looking twice a second where it looks once a second by itself."""
AGENT = """
import sys
from labtui.runs import agent, telemetry
telemetry.INTERVAL_S = float(sys.argv[2])
sys.exit(agent.main(sys.argv[1:2]))
"""


class LiveRun:
    """The run, in a folder of its own; use it in `with`."""

    def __init__(self, interval_s: float = 1 / HZ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="labtui-benchmark-")
        place = Path(self._temporary.name)
        subprocess.run(["make", "-s", "-C", FAKE, f"BUILD={place / 'nvml'}"], check=True)
        experiment = place / "experiments" / NAME
        experiment.mkdir(parents=True)
        (experiment / "experiment.toml").write_text(MANIFEST)
        (experiment / "main.py").write_text(
            f"import sys\nsys.path[:0] = [{str(Path(__file__).parent)!r}]\n"
            "from pathlib import Path\nfrom live_rank import report\nreport(Path.cwd())\n"
        )
        (experiment / "guide.md").write_text("# A benchmark\n\nNothing is learned here.\n")
        self.environment = {
            **clean_environment(place), "LABTUI_EXPERIMENTS": str(experiment.parent),
            "LD_LIBRARY_PATH": str(place / "nvml"), "FAKE_NVML_SCRIPT": str(FAKE / "8xh100.txt"),
        }  # fmt: skip
        now = time.time()
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
        self.folder = folder = RunFolder(place / "logs" / f"{stamp}-{NAME}-0000")
        for inside in (folder.events, folder.telemetry, folder.ranks, folder.stacks):
            inside.mkdir(parents=True)
        request = Request(
            id=folder.id, experiment=NAME, command=(sys.executable, "-u", str(experiment / "main.py")),
            python=sys.executable, host=os.uname().nodename, user="", uid=os.getuid(), created=now, nproc=1,
            device="cpu", launch="python",
        )  # fmt: skip
        write_json(folder.request_file, request.document())
        write_json(folder.status_file, Status(QUEUED, now).document())
        command = [sys.executable, "-P", "-c", AGENT, str(folder.path), str(interval_s)]
        subprocess.run(command, env=self.environment, check=True, stdin=subprocess.DEVNULL, start_new_session=True)

    def __enter__(self) -> LiveRun:
        deadline = time.monotonic() + 60
        while len(self.telemetry()) < 2 or not self.rank_log.exists():
            if time.monotonic() > deadline:
                raise SystemExit(f"the run has not begun:\n{self.folder.agent_log.read_text()}")
            time.sleep(0.1)
        return self

    def __exit__(self, *error: object) -> None:
        agent = self.folder.status().agent
        if agent is not None:
            for _ in range(2):  # once asks, twice insists
                os.kill(agent.pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while self.folder.status().live and time.monotonic() < deadline:
            time.sleep(0.1)
        self._temporary.cleanup()

    def process(self, role: str) -> int:
        """The pid of its `sampler` or `rank`."""
        found: list[RunProcess] = [one for one in self.folder.status().processes if one.role == role]
        if not found or found[0].pid is None:
            raise SystemExit(f"the run has no {role}")
        return found[0].pid

    @property
    def agent(self) -> int:
        owner = self.folder.status().agent
        assert owner is not None
        return owner.pid

    @property
    def rank_log(self) -> Path:
        return self.folder.ranks / "python" / "attempt_0" / "0" / "stdout.log"

    def flood(self, on: bool) -> None:
        """Lets the rank print its 50,000 lines a second, or no more."""
        file = self.folder.path / "flood"
        file.touch() if on else file.unlink()

    def telemetry(self) -> list[float]:
        """When each sample was taken."""
        files = sorted(self.folder.telemetry.glob("*.jsonl"))
        lines = [line for file in files for line in file.read_bytes().split(b"\n")[:-1]]
        return [json.loads(line)["t"] for line in lines]

    def reports(self) -> list[float]:
        """When the rank reported a point of its first series; those that came at once are left out."""
        lines = self.folder.rank_events(0).read_bytes().split(b"\n")[:-1]
        events = [json.loads(line) for line in lines if b'"loss"' in line]
        return [event["t"] for event in events if event.get("step", 0) >= PAST]


def clean_environment(place: Path) -> dict[str, str]:
    """The user's environment, with folders of labtui's own below `place`, where nobody is welcomed any more."""
    own = {name: str(place / name) for name in ("cache", "config", "state", "data")}
    for folder in own.values():
        (Path(folder) / "labtui").mkdir(parents=True, exist_ok=True)
    (place / "data" / "labtui" / "welcomed").touch()
    (place / "logs").mkdir(exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LABTUI_", "TEXTUAL_", "NO_COLOR"))
    }
    places = {f"XDG_{name.upper()}_HOME": folder for name, folder in own.items()}
    return {**kept, **places, "LABTUI_LOGS": str(place / "logs")}


def labtui(code: str = LABTUI) -> list[str]:
    """The command that opens the terminal UI."""
    return [sys.executable, "-c", code]

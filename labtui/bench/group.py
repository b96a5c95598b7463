"""What every distributed experiment starts with: `group.run(main)`.

Import this module first, before torch: under torchrun it ties this process's life to torchrun's, and loading torch
takes a second in which torchrun may already be gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def _launcher_is_gone() -> bool:
    """Whether this process has already been handed to somebody else than the torchrun that started it."""
    parent = os.getppid()
    if str(parent) == os.environ.get("LABTUI_AGENT_PID"):
        return True  # a run's agent adopts what its torchrun leaves behind
    if parent != 1:
        return False
    try:
        # In a container torchrun itself may be process 1, and it is a Python program; an init is not.
        return b"python" not in Path("/proc/1/cmdline").read_bytes()
    except OSError:
        return False


def _die_with_torchrun() -> None:
    # torchrun gives each rank a session of its own, so a torchrun that is killed leaves its ranks running for ever,
    # with their GPUs and ports. The kernel can end them instead.
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if _launcher_is_gone():  # it went before prctl: then no signal will come
        os._exit(1)


_die_with_torchrun()

import math  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from datetime import timedelta  # noqa: E402
from typing import Any, NoReturn  # noqa: E402

# labtui needs no NumPy, and torch would say on every rank that it misses it.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.elastic.multiprocessing.errors import get_error_handler  # noqa: E402

from labtui.bench import device as devices  # noqa: E402
from labtui.bench import report  # noqa: E402

COLLECTIVE_TIMEOUT_S = 30.0
"""How long a collective waits for the other ranks (torch's own default is 10 to 30 minutes)."""


@dataclass(frozen=True)
class Group:
    """All processes of this run, seen from one of them."""

    rank: int
    local_rank: int
    world_size: int
    device: torch.device
    backend: str
    """"gloo" on the CPU, "nccl" on GPUs."""
    seed: int

    def generator(self, device: str = "cpu") -> torch.Generator:
        """Random numbers of this rank's own: seed + 1 + rank. torch's global generators are equal on all ranks."""
        return torch.Generator(device).manual_seed(self.seed + 1 + self.rank)

    def mesh(self, shape: tuple[int, ...], names: tuple[str, ...]) -> Any:
        """A DeviceMesh: the ranks as a grid with named axes, such as `mesh((2, 2), ("dp", "tp"))`."""
        return dist.init_device_mesh(self.device.type, shape, mesh_dim_names=names)

    def largest(self, value: float) -> float:
        """The largest of all ranks' values, NaN if any is NaN. A collective: every rank must call it."""
        mine = torch.tensor([value], dtype=torch.float64, device=self.device)
        everyones = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(everyones, mine)
        return float(torch.cat(everyones).max())  # Tensor.max keeps a NaN, which ReduceOp.MAX may lose


def run(main: Callable[[Group], None], seed: int = 0) -> NoReturn:
    """Forms the process group, calls `main` on every rank and ends this process: 0, or 1 after an exception.

    Works under torchrun and without it (then as a single rank). torch's generators are seeded alike on all ranks.
    Never returns, and nothing registered with atexit is called.
    """
    # A rank stuck in a collective sits in C++, where Python's own handler for ctrl-c never gets its turn.
    # (SIGTERM, which torchrun sends, ends a process at once as long as nobody installs a handler for it.)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    errors = get_error_handler()  # writes torchrun's error.json, from which it tells who failed first and why
    errors.initialize()
    code = 0
    try:
        group = _join(seed)
        try:
            main(group)
        except SystemExit as leaving:
            if leaving.code:
                raise
        # Nobody goes while another still reads from its sockets.
        dist.barrier()
        if group.device.type == "cuda":
            torch.cuda.synchronize()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
        if not isinstance(leaving.code, int):
            print(leaving.code, file=sys.stderr)
        errors.record_exception(leaving)
    except BaseException as error:  # noqa: BLE001 - reported in full; the process ends here
        traceback.print_exc()
        errors.record_exception(error)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # closed, or its disk is full: there is nowhere left to say so
    # Not a normal exit of the interpreter: gloo's threads may drop their last tensor while Python is being taken
    # down, and that aborts the process ("terminate called without an active exception", pytorch issue 190489). It hit
    # 1 to 3 of 12 good runs with four ranks, and torchrun then calls the run failed.
    os._exit(code)


def _join(seed: int) -> Group:
    rank = int(os.environ.get("RANK", "0"))
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    # Said before anything can hang: from here on this rank's stacks can be had.
    socket, trouble = _serve_stacks(rank)
    report.hello(socket=socket)
    if trouble:
        report.note(trouble)
    timeout = timedelta(seconds=_timeout())
    device = _device(local_rank)
    torch.manual_seed(seed)
    backend = "nccl" if device.type == "cuda" else "gloo"
    options: dict[str, Any] = {"timeout": timeout}
    if device.type == "cuda":
        options["device_id"] = device  # connects NCCL now, and lets barrier() know the device
    if "RANK" not in os.environ:
        # Alone: no port, no rendezvous.
        options.update(store=dist.HashStore(), rank=0, world_size=1)
    dist.init_process_group(backend, **options)
    group = Group(dist.get_rank(), local_rank, dist.get_world_size(), device, backend, seed)
    here, cores = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), len(os.sched_getaffinity(0))
    if local_rank == 0 and device.type == "cpu" and here > cores:
        report.note(f"{here} ranks share {cores} core{'s' * (cores > 1)}: their step times show that, not the method")
    return group


def _device(local_rank: int) -> torch.device:
    if devices.kind() == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        devices.refuse(f"torch {torch.__version__} sees no GPU: run on cpu, or with a Python whose torch can use CUDA")
    if local_rank >= torch.cuda.device_count():
        devices.refuse(f"rank {local_rank} of this host finds no GPU of its own: there are {torch.cuda.device_count()}")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _timeout() -> float:
    text = os.environ.get("LABTUI_COLLECTIVE_TIMEOUT_S") or str(COLLECTIVE_TIMEOUT_S)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        devices.refuse(f"LABTUI_COLLECTIVE_TIMEOUT_S is {text!r}, a number of seconds above 0 expected")
    return seconds


_worker_server: Any = None


def _serve_stacks(rank: int) -> tuple[str | None, str]:
    """Starts torch's worker server; returns its socket, or None and a sentence if it should have started.

    Its C++ thread tells stacks and the last collectives even while Python is stuck in one.
    """
    global _worker_server
    folder = os.environ.get("LABTUI_RUNTIME_DIR")
    if not folder:
        return None, ""
    try:
        from torch._C._distributed_c10d import _WorkerServer
    except ImportError:
        return None, ""  # a torch that has none
    socket = Path(folder) / f"r{rank}.sock"
    try:
        socket.unlink(missing_ok=True)  # left by an earlier attempt of this rank
        _worker_server = _WorkerServer(str(socket))
    except (OSError, RuntimeError, TypeError) as error:
        return None, f"torch's worker server did not start: {error}"
    return str(socket), ""

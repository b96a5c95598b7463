"""Pairs of versions that are known to fail together, each with its source. A table, and who it fits. Pure.

What can't be sourced isn't here: that nothing is known of a pair does not make it good.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from labtui.machine.doctor.finding import Finding, Level

LOOKED_UP = "November 2026"

_GUIDE = "NCCL user guide, Troubleshooting"
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Pairing:
    """What meets on this machine. None: not known."""

    said: str = "these versions"
    """The versions in words, as they call themselves."""
    torch: Numbers | None = None
    official: bool = False
    """Whether torch is a wheel of the PyTorch project, whose contents are known."""
    cuda: Numbers | None = None
    """The CUDA that torch was built for."""
    nccl: Numbers | None = None
    driver: Numbers | None = None
    driver_cuda: Numbers | None = None
    """The newest CUDA that the driver runs."""
    capabilities: frozenset[Numbers] = frozenset()
    """The GPUs' compute capabilities."""
    peers: bool | None = None
    """Whether the driver allows peer access between all pairs of GPUs."""
    pcie_peers: bool = False
    """Whether it allows peer access over PCIe."""
    contained: bool = False
    """Whether this is a container that may not set NUMA policies."""
    unlimited_stack: bool = False
    machine: str = "x86_64"


@dataclass(frozen=True)
class Known:
    """A fault that somebody has described."""

    name: str
    level: Level
    fits: Callable[[Pairing], bool]
    why: str
    advice: str
    source: str


def _between(first: Numbers, numbers: Numbers | None, beyond: Numbers) -> bool:
    """Whether first <= numbers < beyond; False where the numbers aren't known."""
    return numbers is not None and first <= numbers < beyond


KNOWN_BAD: tuple[Known, ...] = (
    Known(
        "Blackwell GPUs and torch",
        "fail",
        lambda pair: (
            pair.official
            and _between((0,), pair.cuda, (12, 8))
            and any(capability >= (10,) for capability in pair.capabilities)
        ),
        "torch's builds for CUDA before 12.8 hold no kernels for these GPUs: no kernel image is available",
        "install a torch built for CUDA 12.8 or newer",
        "pytorch issue 157517",
    ),
    Known(
        "older GPUs and CUDA 13",
        "fail",
        lambda pair: _between((13,), pair.cuda, (99,)) and any(capability < (7, 5) for capability in pair.capabilities),
        "CUDA 13 compiles nothing for GPUs before Turing (compute capability 7.5): no kernel image is available",
        "install a torch built for CUDA 12.6",
        "pytorch issue 157517, quoting the CUDA Toolkit's release notes",
    ),
    Known(
        "older GPUs and torch",
        "fail",
        lambda pair: (
            pair.official
            and _between((2, 8), pair.torch, (99,))
            and _between((12, 8), pair.cuda, (13,))
            and any(capability < (7,) for capability in pair.capabilities)
        ),
        "since 2.8 torch's builds for CUDA 12.8 and 12.9 hold no kernels for GPUs before Volta",
        "install a torch built for CUDA 12.6",
        "pytorch issue 157517, pytorch/test-infra pull request 7046",
    ),
    Known(
        "torch 2.7.0",
        "warn",
        lambda pair: pair.torch == (2, 7, 0),
        "init_process_group with device_id sets up NCCL without blocking, and collectives then hang now and then",
        "torch 2.7.1 or newer, or TORCH_NCCL_USE_COMM_NONBLOCKING=0",
        "pytorch issue 153960",
    ),
    Known(
        "torch and an old NCCL",
        "warn",
        lambda pair: _between((2, 3), pair.torch, (99,)) and _between((0,), pair.nccl, (2, 13)),
        "since 2.3 a barrier before torch.cuda.set_device fails with NCCL up to 2.12: invalid resource handle",
        "NCCL 2.13 or newer",
        "pytorch issue 130414",
    ),
    Known(
        "RTX 50 and NCCL 2.25",
        "fail",
        lambda pair: pair.nccl == (2, 25, 1) and any((12,) <= capability < (13,) for capability in pair.capabilities),
        "its kernels ask for more shared memory than these GPUs have",
        "NCCL 2.26.2 or newer, as torch 2.7 brings it",
        "NVIDIA/nccl issue 1637",
    ),
    Known(
        "NCCL 2.25.1",
        "warn",
        lambda pair: pair.nccl == (2, 25, 1),
        "ending a communicator after a failure hangs (ncclCommAbort), so that failed ranks stay",
        "NCCL 2.26.2 or newer",
        "pytorch issue 149153",
    ),
    Known(
        "NCCL 2.29.2 on ARM",
        "warn",
        lambda pair: pair.nccl == (2, 29, 2) and pair.machine == "aarch64",
        "built with gcc before 10, it may hang",
        "NCCL 2.29.3 or newer",
        "NCCL 2.29.3 release notes",
    ),
    Known(
        "NVLS and driver",
        "warn",
        lambda pair: (
            _between((2, 26, 2), pair.nccl, (2, 26, 5))
            and pair.driver_cuda == (12, 2)
            and any(capability >= (9,) for capability in pair.capabilities)
        ),
        "with a driver of CUDA 12.2 and NVSwitch, NCCL has failed at the start: transport/nvls.cc, invalid argument",
        "NCCL 2.26.5 or newer, a newer driver, or NCCL_NVLS_ENABLE=0",
        "pytorch issue 150852",
    ),
    Known(
        "NCCL in this container",
        "warn",
        lambda pair: (
            pair.contained and _between((2, 24), pair.nccl, (2, 26, 5)) and _between((12, 6), pair.driver_cuda, (99,))
        ),
        "it shares host memory by a way that needs NUMA calls, which this container forbids, and does not notice",
        "docker run --cap-add SYS_NICE, NCCL 2.26.5 or newer, or NCCL_CUMEM_HOST_ENABLE=0",
        f"{_GUIDE}, cuMem host allocations",
    ),
    Known(
        "NCCL without peer access",
        "warn",
        lambda pair: (
            pair.peers is False and _between((2, 24), pair.nccl, (99,)) and _between((12, 6), pair.driver_cuda, (13,))
        ),
        "without peer access, drivers before CUDA 13.0 may refuse the host memory that NCCL shares between ranks",
        "where NCCL fails at the start: NCCL_CUMEM_HOST_ENABLE=0, or driver 580 or newer",
        f"{_GUIDE}, cuMem host allocations",
    ),
    Known(
        "NCCL and ulimit -s",
        "warn",
        lambda pair: pair.unlimited_stack and _between((0,), pair.nccl, (2, 28)),
        "an unlimited stack gives new threads 2 MB instead of 8: NCCL's graph search may overflow that and crash",
        "ulimit -s 8192, in the shell that starts labtui, or NCCL 2.28 or newer",
        f"{_GUIDE}, Stack size",
    ),
    Known(
        "driver 560",
        "warn",
        lambda pair: pair.pcie_peers and _between((560,), pair.driver, (561,)),
        "NCCL has hung with peer access over PCIe",
        "driver 570 or newer, or NCCL_P2P_DISABLE=1",
        "dmlc/xgboost issue 11242",
    ),
)


def faults(pair: Pairing) -> list[Finding]:
    """The known faults that fit this machine; one finding that says so where none does."""
    found = [
        Finding(known.name, known.level, pair.said, f"{known.why} ({known.source})", known.advice)
        for known in KNOWN_BAD
        if known.fits(pair)
    ]
    if found:
        return found
    return [Finding("known faults", "ok", f"none known for {pair.said}, as of {LOOKED_UP}")]

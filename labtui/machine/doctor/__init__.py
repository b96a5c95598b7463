"""The doctor: looks at what a run needs before a run trips over it.

Each finding says what is there, why it matters and what to do. Loads no torch, starts nothing, waits for nothing longer
than a few seconds, and leaves nothing behind. Knows no runs: where their folders lie is told to it.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

from labtui.machine.doctor import (
    container,
    environment,
    gpu_links,
    gpu_state,
    known,
    limits,
    network,
    numa,
    pci,
    seen,
    software,
    system,
)
from labtui.machine.doctor.finding import Finding, version
from labtui.machine.doctor.seen import Seen
from labtui.machine.doctor.software import Torch
from labtui.machine.host import ROOT

__all__ = ["Finding", "examine"]


def examine(
    logs: Path | None = None, environ: Mapping[str, str] | None = None, root: Path = ROOT
) -> tuple[Finding, ...]:
    """All findings, in the order in which a person would want to read them.

    `logs` is where run folders go (None: not looked at), `environ` what runs would inherit (default: our environment),
    `root` stands for the file system that /proc, /sys, /etc and /dev are read from.
    """
    environ = os.environ if environ is None else environ
    opening = seen.begin(environ, root)
    # While NVML opens:
    build = software.installed(root)
    host_name = network.host_name(environ)
    machine = seen.take(opening, environ, root)
    rdma = network.rdma_devices(root)
    findings = [
        system.system(),
        system.python(),
        software.torch(build, machine.count),
        *_gpus(build, machine, rdma, environ, root),
        limits.shared_memory(root, len(machine.used)),
        limits.locked_memory(rdma),
        limits.open_files(),
        limits.ports(root),
        host_name,
        network.gloo_interfaces(environ, root),
        network.nccl_interfaces(environ, machine.count, root),
        *network.rdma(environ, machine.count, root),
        system.log_out(system.user_name(environ), root),
    ]
    if logs is not None:
        findings += [limits.writable(logs), limits.disk(logs)]
    findings += [*environment.inherited(environ, machine.count, root), *system.tools(environ, root)]
    return tuple(finding for finding in findings if finding is not None)


def _gpus(build: Torch, machine: Seen, rdma: list[str], environ: Mapping[str, str], root: Path) -> list[Finding | None]:
    return [
        gpu_state.driver(machine),
        gpu_state.devices(machine, environ, root),
        software.cuda(build, machine),
        software.nccl(build, environ),
        *(known.faults(pairing(build, machine, root)) if machine.gpus and build.cuda else ()),
        *gpu_state.health(machine),
        *gpu_state.modes(machine),
        gpu_state.device_files(machine, environ, root),
        gpu_state.clocks(machine),
        gpu_state.processes(machine, root),
        gpu_links.peer_access(machine),
        *gpu_links.links(machine),
        gpu_links.fabric_manager(root),
        pci.iommu(machine, rdma, root),
        pci.acs(machine, root),
        numa.affinity(machine, root),
    ]


def pairing(build: Torch, machine: Seen, root: Path = ROOT) -> known.Pairing:
    """What of this machine the table of known faults is asked about."""
    refused = gpu_links.refused(machine)
    capabilities = (version(gpu.compute_capability) for gpu in machine.gpus if gpu.index in machine.used)
    said = (("torch", build.version), ("CUDA", build.cuda), ("NCCL", build.nccl.version), ("driver", machine.driver))
    return known.Pairing(
        said=", ".join(f"{name} {told or 'of an unknown version'}" for name, told in said),
        torch=build.numbers,
        official=build.official,
        cuda=version(build.cuda),
        nccl=version(build.nccl.version),
        driver=version(machine.driver),
        driver_cuda=machine.cuda,
        capabilities=frozenset(capability for capability in capabilities if capability is not None),
        peers=None if refused is None else not refused,
        pcie_peers=bool(gpu_links.over_pcie(machine)),
        contained=container.forbids_numa(root),
        unlimited_stack=resource.getrlimit(resource.RLIMIT_STACK)[0] == resource.RLIM_INFINITY,
        machine=os.uname().machine,
    )

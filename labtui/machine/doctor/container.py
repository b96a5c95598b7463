"""Whether we are in a container, and what it hides or forbids."""

from __future__ import annotations

import re
from pathlib import Path

from labtui.machine.host import ROOT, read_text

_INITIAL_NAMESPACE = "pid:[4026531836]"
"""The inode of the host's own pid namespace is fixed (PROC_PID_INIT_INO)."""
_SYS_NICE = 1 << 23


def contained(root: Path = ROOT) -> bool:
    """Whether Docker or Podman made this file system."""
    return (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()


def hides_processes(root: Path = ROOT) -> bool:
    """Whether the host's processes can't be seen: this pid namespace is not its own."""
    try:
        return str((root / "proc/self/ns/pid").readlink()) != _INITIAL_NAMESPACE
    except OSError:
        return contained(root)


def forbids_numa(root: Path = ROOT) -> bool:
    """Whether NUMA policies are likely to be refused: in a container, that takes CAP_SYS_NICE."""
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)", read_text(root / "proc/self/status") or "", re.M)
    return contained(root) and capabilities is not None and not int(capabilities[1], 16) & _SYS_NICE

"""The topology that a machine.json tells of: the other way of `topology.machine_document`. Pure.

The document may be another version's, or edited by hand: what has not the form that is expected counts as not told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from labtui.machine.topology import WAYS, Ends, Topology, nvlinks


def from_machine(machine: Mapping[str, Any]) -> Topology | None:
    """How the GPUs of a machine.json hang together; None where it tells of no GPU."""
    gpus = {gpu["index"]: gpu for gpu in _documents(machine.get("gpus")) if type(gpu.get("index")) is int}
    told = machine.get("topology")
    told = told if isinstance(told, Mapping) else {}
    if not gpus:
        return None
    p2p = told.get("p2p")
    why = told.get("why")
    return Topology(
        gpus=tuple(gpus),
        links={
            (f"GPU{one}", f"GPU{other}"): kind
            for one, other, kind in _pairs(told.get("pairs"))
            if {one, other} <= {*gpus} and (kind in WAYS or nvlinks(kind) is not None)
        },
        cpu_affinity=_texts(told.get("cpu_affinity"), len(gpus)),
        numa_affinity=_texts(told.get("numa_affinity"), len(gpus)),
        p2p={
            str(may): {(one, other): status for one, other, status in _pairs(pairs)}
            for may, pairs in (p2p.items() if isinstance(p2p, Mapping) else ())
        },
        ends={index: _ends(gpu) for index, gpu in gpus.items()},
        why=str(why) if why else None,
    )


def _documents(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _pairs(value: Any) -> Iterator[tuple[int, int, str]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, list) and len(item) == 3 and [type(part) for part in item] == [int, int, str]:
            yield item[0], item[1], item[2]


def _texts(value: Any, count: int) -> tuple[str | None, ...] | None:
    """A list with an entry for each GPU."""
    if not isinstance(value, list) or len(value) != count:
        return None
    return tuple(None if item is None else str(item) for item in value)


def _ends(gpu: Mapping[str, Any]) -> Ends:
    pcie, nvlink = (part if isinstance(part, Mapping) else {} for part in (gpu.get("pcie"), gpu.get("nvlink")))
    speed = nvlink.get("gb_per_s")
    return Ends(
        pcie_generation=_whole(pcie.get("generation")),
        pcie_width=_whole(pcie.get("width")),
        nvlink_generation=_whole(nvlink.get("generation")),
        nvlink_gb_per_s=float(speed) if isinstance(speed, int | float) and not isinstance(speed, bool) else None,
    )


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None

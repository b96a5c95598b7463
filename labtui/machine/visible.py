"""Which GPUs CUDA shows to a process, by CUDA_VISIBLE_DEVICES: numbers, UUIDs (also abbreviated), MIG ids.

Pure: works on the elements of `gpus` in machine.json, so it tells of other machines too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

GpuDocument = Mapping[str, Any]


def visible(gpus: Sequence[GpuDocument], environ: Mapping[str, str]) -> list[str]:
    """The UUIDs that a process started in `environ` sees as cuda:0, cuda:1 and so on.

    CUDA's own rules: unset shows all; the list ends at the first entry that names no GPU (-1, an index beyond the last,
    a beginning of UUIDs that fits several); a GPU named twice hides all. Numbers count in the order of PCI bus ids, as
    with CUDA_DEVICE_ORDER=PCI_BUS_ID: see `order_is_certain`. For a MIG id it is the UUID of the MIG device.
    """
    wanted = environ.get("CUDA_VISIBLE_DEVICES")
    by_index = sorted(gpus, key=lambda gpu: int(gpu["index"]))
    if wanted is None:
        return [gpu["uuid"] for gpu in by_index if gpu.get("uuid")]
    chosen: list[str] = []
    for entry in wanted.split(","):
        uuid = _named(by_index, entry.strip())
        if uuid is None:
            break
        if uuid in chosen:
            return []
        chosen.append(uuid)
    return chosen


def _named(gpus: Sequence[GpuDocument], entry: str) -> str | None:
    number = re.match(r"[+-]?[0-9]{1,9}", entry)
    if number is not None:
        place = int(number[0])
        return gpus[place].get("uuid") if 0 <= place < len(gpus) else None
    if entry.startswith("MIG-GPU-"):
        return _old_mig_id(gpus, entry)
    if entry.startswith(("GPU-", "MIG-")):
        uuids = [gpu["uuid"] for gpu in gpus if gpu.get("uuid")]
        uuids += [mig["uuid"] for gpu in gpus for mig in gpu.get("mig_devices", ())]
        fitting = [uuid for uuid in uuids if uuid.lower().startswith(entry.lower())]
        return fitting[0] if len(fitting) == 1 else None
    return None


def _old_mig_id(gpus: Sequence[GpuDocument], entry: str) -> str | None:
    """`MIG-GPU-<uuid>/<GPU instance>/<compute instance>`, as drivers before R470 called MIG devices."""
    gpu_uuid, _, instances = entry.removeprefix("MIG-").partition("/")
    for gpu in gpus:
        if str(gpu.get("uuid")).lower() == gpu_uuid.lower():
            for mig in gpu.get("mig_devices", ()):
                if instances == f"{mig['gpu_instance']}/{mig['compute_instance']}":
                    return str(mig["uuid"])
    return None


def order_is_certain(gpus: Sequence[GpuDocument], environ: Mapping[str, str]) -> bool:
    """Whether CUDA counts these GPUs as NVML does. By default it puts the fastest first, so that machines with GPUs of
    several kinds are counted otherwise, unless CUDA_DEVICE_ORDER=PCI_BUS_ID."""
    return environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or len({gpu.get("name") for gpu in gpus}) <= 1


def nvml_index(gpus: Sequence[GpuDocument], uuid: str) -> int | None:
    """NVML's index of the GPU with this UUID, or of the one that this MIG device is a part of."""
    for gpu in gpus:
        if uuid == gpu.get("uuid") or any(uuid == mig["uuid"] for mig in gpu.get("mig_devices", ())):
            return int(gpu["index"])
    return None

"""The words of a line of `nvidia-smi topo`: a header with its devices, a row with its cells, affinities. Pure; one line
at a time, and no memory of others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from labtui.machine.topology import P2P

STATUS = frozenset({*P2P, "X"})
"""Cells of `topo -p2p`."""
LINKS = re.compile(r"(?:X|NV[0-9]{1,4}|PIX|PXB|PHB|NODE|SYS|SOC|PSB)+")
"""Cells of `topo -m`. Some versions leave no gap between columns once names are long: NODENODE, NIC8NIC9."""
_LINK = re.compile(r"NV[0-9]{1,4}|PIX|PXB|PHB|NODE|SYS|SOC|PSB|X")

GPU = re.compile(r"GPU[0-9]{1,4}")
_DEVICES = re.compile(r"(?:(?:GPU|NIC)[0-9]{1,4})+")
_DEVICE = re.compile(r"(?:GPU|NIC)[0-9]{1,4}")
_NIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]*[0-9][A-Za-z0-9_.:-]*")
_LONGEST_NAME = 64

# Where the window was too narrow the last of them is cut: `CPU Aff`, `C`.
_AFFINITIES = re.compile(
    r"(?P<cpu>CPU\s+Aff\w*|\bC(?:PU?)?\s*$)|(?P<numa>NUMA\s+Aff\w*)|(?P<gpu_numa>GPU\s+NUMA(?:\s+ID)?)"
)
AFFINITY = re.compile(r"[0-9][0-9,-]*|N/A")
_WORD = re.compile(r"[^\s|]+")

Cells = list[str | None]
"""A row's cells; None for one that isn't understood."""


def header(line: str) -> tuple[list[str], dict[str, int]] | None:
    """The devices that name the columns, and where the affinity columns begin; None where the line is no header."""
    start = GPU.search(line)
    if start is None:
        return None
    affinities = affinity_columns(line, start.start())
    columns = devices(line[start.start() : min(affinities.values(), default=len(line))])
    return (columns, affinities) if columns and len(columns) + len(affinities) > 1 else None


def affinity_columns(line: str, start: int = 0) -> dict[str, int]:
    """`cpu`, `numa`, `gpu_numa` -> where in the line that column begins."""
    return {match.lastgroup or "": match.start() for match in _AFFINITIES.finditer(line, start)}


def devices(text: str) -> list[str]:
    """The device names that the text consists of; nothing where there are other words. The last may be cut."""
    names: list[str] = []
    words = _WORD.findall(text)
    for place, word in enumerate(words):
        last = place == len(words) - 1
        found = _DEVICE.findall(word) if _DEVICES.fullmatch(word) else [word] if _is_nic_name(word) else []
        if not last and (not found or any(name in names for name in found)):
            return []
        names += [name for name in found if name not in names]
    return names


def _is_nic_name(word: str) -> bool:
    return len(word) <= _LONGEST_NAME and bool(_NIC_NAME.fullmatch(word)) and not LINKS.fullmatch(word)


def row(line: str, columns: Sequence[str], any_name: bool = False) -> tuple[str, str, int] | None:
    """What stands before the row, its device, and where its cells begin; None where the line is no row.

    A device is GPU# or NIC#, the name of a column, or, with `any_name`, whatever a NIC may be called.
    """
    for word, following in itertools.pairwise(_WORD.finditer(line)):
        if following[0] in STATUS or LINKS.fullmatch(following[0]):
            device = _device(word[0], columns, any_name)
            if device is not None:
                return line[: word.end() - len(device)].strip(" \t|>"), device, following.start()
    return None


def _device(word: str, columns: Sequence[str], any_name: bool) -> str | None:
    """The device that the word ends with: a launcher's prefix may stick to it, as in `node1:GPU0`."""
    match = re.search(r"(?:GPU|NIC)[0-9]{1,4}$", word)
    names = [match[0]] if match is not None else []
    names += [name for name in columns if name and word.endswith(name)]
    if any_name and _is_nic_name(word):
        names.append(word)
    for name in names:
        before = word[: -len(name)]
        if not before or not (before[-1].isalnum() or before[-1] == "_"):
            return name
    return None


def goes_on(line: str) -> int | None:
    """Where a row that was wrapped goes on with links or statuses; None where the line begins with something else."""
    first = _WORD.search(line)
    return first.start() if first is not None and (first[0] in STATUS or LINKS.fullmatch(first[0])) else None


def begins_with_affinity(line: str) -> bool:
    """Whether the first word may be the number of a CPU or a node."""
    first = _WORD.search(line)
    return first is not None and bool(AFFINITY.fullmatch(first[0]))


def cells(line: str, start: int, most: int | None) -> tuple[Cells, int]:
    """The links or statuses from `start` on, at most so many, and where the last of them ends.

    A word that is neither is a cell that isn't understood, if such cells follow it; otherwise the cells end there.
    """
    found: Cells = []
    skipped: Cells = []
    end = start
    for word in _WORD.finditer(line, start):
        if most is not None and len(found) >= most:
            break
        if word[0] in STATUS:
            told = [word[0]]
        elif LINKS.fullmatch(word[0]):
            told = _LINK.findall(word[0])
        elif AFFINITY.fullmatch(word[0]) and word[0] != "N/A":
            break
        else:
            skipped.append(None)
            continue
        found += [*skipped, *told]
        skipped, end = [], word.end()
    return found[:most], end


def affinities(text: str, at: int, columns: dict[str, int]) -> dict[str, str]:
    """The cells after the links, by column. `at` is where `text` begins in its line."""
    words = [word for word in _WORD.finditer(text) if AFFINITY.fullmatch(word[0])]
    names = list(columns)
    if not names or not words:
        return {}
    if len(words) >= len(names):
        return {name: word[0] for name, word in zip(names, words, strict=False)}
    if "\t" in text:
        # nvidia-smi's own tabs: one after the CPUs, two after the nodes.
        by_tab = [cell.strip() for cell in text.split("\t")[1:]]
        told = dict(zip(("cpu", "numa"), by_tab, strict=False))
        told["gpu_numa"] = next((cell for cell in reversed(by_tab[2:]) if cell), "")
        return {name: told[name] for name in names if AFFINITY.fullmatch(told.get(name, ""))}
    found: dict[str, str] = {}
    for word in words:
        free = [name for name in names if name not in found]
        under = [name for name in free if columns[name] <= at + word.start() + 1]
        found[(under or free)[-1 if under else 0]] = word[0]
    return found

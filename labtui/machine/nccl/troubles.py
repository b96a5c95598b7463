"""What is wrong, by all that was noted: what is only told again is left out, what no line says is deduced. Pure."""

from __future__ import annotations

from labtui.machine.nccl import diagnosis
from labtui.machine.nccl.facts import Facts
from labtui.machine.nccl.grammar import version_tuple
from labtui.machine.nccl.links import Link, rings_whole
from labtui.machine.nccl.outline import Warned

HARMLESS = ("other", "ibverbs_missing", "p2p_unavailable", "collnet_unavailable", "cuda_lib_missing")
"""Kinds that end no job."""

_RINGS_TOLD = (2, 9)
"""From this version on NCCL says when all rings are connected."""
_FAILURES = {"cuda_error", "cuda_oom", "p2p_ipc_failed", "nvls_failed"}
"""Kinds of a CUDA call that failed."""


def warned(facts: Facts, version: str | None, size: int, all_links: tuple[Link, ...]) -> tuple[Warned, ...]:
    """All that is wrong, the gravest first. `size`: of the largest communicator."""
    found: list[Warned] = []
    kinds = {finding.kind for finding in facts.evidence if not finding.cause.endswith(", retold")}
    for finding, evidence in facts.evidence.items():
        kind, cause = finding
        if cause.endswith(", retold"):
            # Said again by PyTorch: only of use where NCCL's own warning is missing.
            if (
                kind in kinds
                or (kind == "cuda_error" and kinds & _FAILURES)
                or (cause.startswith("unhandled") and kinds)
            ):
                continue
            kinds.add(kind)
        found.append(
            Warned(
                kind,
                cause.removesuffix(", retold"),
                evidence.count,
                tuple(sorted(evidence.hosts)),
                tuple(evidence.lines),
            )
        )
    if any(one.kind not in ("other", "ibverbs_missing", "cuda_lib_missing") for one in found):
        # A warning that nobody knows, beside one that is known, only follows from it.
        found = [one for one in found if one.cause != "unknown_warning"]
    mismatch = facts.calls.mismatch
    if mismatch is not None and "collective_mismatch" not in kinds:
        text = f"operation {mismatch.operation:#x} is {mismatch.first} on one rank and {mismatch.second} on another"
        found.append(Warned("collective_mismatch", "calls", 1, (), (text,)))
    found += _deduced(facts, version, size, all_links, found)
    return tuple(sorted(found, key=lambda one: diagnosis.gravity(one.kind, one.cause)))


def _deduced(
    facts: Facts, version: str | None, size: int, all_links: tuple[Link, ...], found: list[Warned]
) -> list[Warned]:
    """What no line says, but their order: the log ends where the next step should have followed."""
    alone = {(origin.host, origin.pid) for origin in facts.origins.values() if origin.ranks.get(1) == 0}
    alone |= facts.first_ranks
    if size <= 1 and len(alone) > 1:
        return [Warned("lone_ranks", "lone_ranks", len(alone), (), ())]
    if size < 2 or any(one.kind not in HARMLESS for one in found):
        return []
    origins = facts.origins.values()
    went_on = (
        any(origin.completed or origin.trees for origin in origins)
        or facts.coll_channels
        or facts.choices
        or facts.calls.count
        or facts.collnet
    )
    if went_on:
        return []
    connected = sum(origin.rings > 0 for origin in origins)
    tells = connected > 0 or (version is not None and version_tuple(version) >= _RINGS_TOLD)
    if tells and connected < size and rings_whole(facts, size, all_links):
        return [Warned("hang_suspected", "rings", 1, (), (f"{connected} of {size} ranks report connected rings",))]
    begun = {origin.ranks.get(size) for origin in origins if size in origin.started}
    further = all_links or facts.rings or facts.trees or facts.tree_entries or connected
    if len(begun) == size and not further:
        return [Warned("hang_suspected", "start", 1, (), (f"all {size} ranks began to initialise and none went on",))]
    return []

"""What a machine is, how its GPUs hang together, and what the doctor found, as lines. Pure; reads no machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from labtui.charts import number
from labtui.machine import topology, topology_lines, topology_words
from labtui.machine.doctor.finding import Finding
from labtui.machine.topology import Topology
from labtui.runs.clean import clean_line
from labtui.runs.gauges import HostGauges
from labtui.runs.records import Document
from labtui.tui import gpu_words, words
from labtui.tui.lines import Line, Piece, fit, wrap
from labtui.tui.messages import Machine
from labtui.tui.widgets.strip import LOOKING

NAMES = 9
"""Cells for what a row is about."""
NO_PROFILE = "none yet: run link_vs_compute, and predictions rest on what this machine can do"
KINDS, CEILINGS, PEERS = "kinds", "ceilings", "peers"
SELF = "·"
_MARKS = {"fail": ("!!", "bad"), "warn": ("! ", "warn"), "note": ("· ", "dim"), "ok": ("ok", "good")}
_NAMES_BESIDE = 50
"""From so many cells on, a finding stands beside its name."""
_GRAVEST_FIRST = ("fail", "warn", "note", "ok")
_BUSY_GB_S = 1e-6
"""Interfaces with less traffic than a kilobyte per second are left out."""


# What it is -----------------------------------------------------------------------------------------------------------


def about(machine: Machine | None, profiles: Mapping[str, Document] | None, width: int) -> list[Line]:
    """What the machine is; `profiles` by kind of device, None where nobody has looked yet."""
    document = (machine.document if machine is not None else None) or {}
    if not document:
        trouble = clean_line(machine.trouble) if machine is not None else ""
        said: Piece = (f"{words.UNKNOWN}: {trouble}", "warn") if trouble else (LOOKING, "dim")
        lines: list[Line] = [((text, said[1]),) for text in wrap(said[0], width)]
    else:
        rows = [
            ("CPU", _cpu(document)),
            ("memory", words.size(document.get("memory"))),
            ("NUMA", _numa(document.get("numa"))),
            *(("GPU", told) for told in _gpus(document)),
        ]
        lines = [line for name, value in rows for line in _row(name, value, width)]
    for host in machine.gauges.hosts[:1] if machine is not None else ():
        lines += _row("now", _traffic(host), width)
    return [*lines, *_profiles(profiles, width)]


def _row(name: str, value: str, width: int, role: str = "") -> list[Line]:
    """A name, and its value on as many lines as that needs."""
    texts = wrap(value, width - NAMES)
    return [((fit(name if place == 0 else "", NAMES), "dim"), (text, role)) for place, text in enumerate(texts)]


def _cpu(document: Document) -> str:
    cores = number(document.get("cores"))
    usable = f"{words.count(int(cores), 'logical core')} to run on" if cores is not None else ""
    return " · ".join(filter(None, (clean_line(str(document.get("cpu") or words.UNKNOWN)), usable)))


def _numa(nodes: Any) -> str:
    """`2 nodes: 0-15,32-47 · 16-31,48-63`."""
    known = [node for node in nodes if isinstance(node, dict)] if isinstance(nodes, list) else []
    if not known:
        return words.UNKNOWN
    cpus = [ranges(cpu for cpu in node.get("cpus") or () if type(cpu) is int) or "no CPU" for node in known]
    return f"{words.count(len(known), 'node')}: CPUs {' · '.join(cpus)}"


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,8` of 0, 1, 2, 3, 8."""
    runs: list[list[int]] = []
    for each in sorted(set(numbers)):
        if runs and runs[-1][1] == each - 1:
            runs[-1][1] = each
        else:
            runs.append([each, each])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)


def _gpus(document: Document) -> list[str]:
    """Equal GPUs in one row: `4x RTX 4080 · 16.0 GiB · PCIe 4.0 x8`."""
    gpus = [gpu for gpu in document.get("gpus") or () if isinstance(gpu, dict)]
    if not gpus:
        why = clean_line(str(document.get("gpus_why") or ""))
        return [f"none{f': {why}' if why else ''}; ranks are CPU processes, and gloo joins them"]
    kinds = Counter(_gpu(gpu) for gpu in gpus)
    rows = [f"{many}x {told}" if len(gpus) > 1 else told for told, many in kinds.items()]
    return [*rows[:-1], f"{rows[-1]} · driver {clean_line(str(document.get('driver') or words.UNKNOWN))}"]


def _gpu(gpu: Mapping[str, Any]) -> str:
    pcie, nvlink = (part if isinstance(part, dict) else {} for part in (gpu.get("pcie"), gpu.get("nvlink")))
    generation, width, links = (
        number(value) for value in (pcie.get("generation"), pcie.get("width"), nvlink.get("links"))
    )
    power, capability = number(gpu.get("power_limit_w")), gpu.get("compute_capability")
    memory = gpu_words.gib(gpu.get("memory"))
    parts = [
        gpu_words.gpu_name(gpu.get("name")) or "GPU",
        f"{memory} GiB" if memory != words.UNKNOWN else "",
        f"PCIe {generation:.0f}.0 x{width:.0f}" if generation is not None and width is not None else "",
        words.count(int(links), "NVLink") if links else "",
        f"compute {clean_line(str(capability))}" if capability else "",
        f"up to {power:.0f} W" if power is not None else "",
        "split by MIG" if gpu.get("mig") is True else "",
    ]
    return " · ".join(filter(None, parts))


def _traffic(host: HostGauges) -> str:
    """What moves just now: /dev/shm, and the busiest interfaces."""
    net = host.latest.get("net")
    rates: list[tuple[float, float, str]] = []
    for name, both in net.items() if isinstance(net, dict) else ():
        rx, tx = (number(both.get(way)) for way in ("rx", "tx")) if isinstance(both, dict) else (None, None)
        if rx is not None and tx is not None and max(rx, tx) >= _BUSY_GB_S:
            rates.append((rx, tx, clean_line(str(name))))
    busiest = sorted(rates, key=lambda each: -max(each[:2]))[:3]
    told = [f"{name} {words.size(rx * 1e9)}/s in, {words.size(tx * 1e9)}/s out" for rx, tx, name in busiest]
    if isinstance(net, dict) and not told:
        told = ["no traffic"]
    shm = host.latest.get("shm_used")
    return " · ".join([*told, *([f"{words.size(shm)} of /dev/shm used"] if number(shm) is not None else ())]) or "n/a"


def _profiles(profiles: Mapping[str, Document] | None, width: int) -> list[Line]:
    if not profiles:
        return _row("profile", LOOKING if profiles is None else NO_PROFILE, width, "dim")
    return [line for device, profile in profiles.items() for line in _profile(device, profile, width)]


def _profile(device: str, profile: Document, width: int) -> list[Line]:
    """What the newest link_vs_compute measured."""
    tflops = {str(name): value for name, value in profile["tflops"].items()}
    speeds = ", ".join(f"{name} {value:.3g}" for name, value in tflops.items())
    ranks = words.count(profile["nproc"], "rank") if profile.get("nproc") else "ranks of an unknown number"
    lines = _row("profile", f"{device}, {ranks}, measured {profile['date']}", width, "strong")
    lines += _row("", f"{speeds} TFLOP/s a rank, at best", width)
    alpha, beta = profile.get("alpha"), profile.get("beta")
    if alpha is None or beta is None:
        lines += _row("", "no link was measured: it takes two ranks", width)
    else:
        lines += _row("", f"{beta:.3g} GB/s of bus bandwidth (beta), {alpha * 1e6:.3g} µs a message (alpha)", width)
        name, best = max(tflops.items(), key=lambda item: float(item[1]))
        ratio = best * 1e12 / (beta * 1e9)
        lines += _row("", f"{ratio:,.0f} FLOPs in {name} while one byte travels", width)
    return lines + _row("", f"from {profile['run']}", width, "dim")


# Links ----------------------------------------------------------------------------------------------------------------


def views(found: Topology | None) -> list[str]:
    """The matrices that there is something in."""
    if found is None or len(found.gpus) < 2:
        return [KINDS]
    return [KINDS, CEILINGS, *([PEERS] if _may(found) else ())]


def view_title(found: Topology | None, view: str) -> str:
    """`Links: ceiling one way, GB/s`."""
    if view == PEERS and found is not None:
        return f"Links: peer access ({clean_line(_may(found))})"
    return {KINDS: "Links", CEILINGS: "Links: ceiling one way, GB/s"}.get(view, "Links")


def links(found: Topology | None, view: str, why: str, width: int) -> list[Line]:
    """A matrix of GPUs, and in words what it means. `why`: why there is no topology."""
    if found is None:
        said = (
            [why, "`labtui topo FILE` reads what `nvidia-smi topo -m` printed on another machine"] if why else [LOOKING]
        )
        return [((text, "dim"),) for sentence in said for text in wrap(sentence, width)]
    lines = matrix(found, view, width) if len(found.gpus) > 1 else []
    lines += [()] if lines else []
    for sentence, role in _below(found, view):
        lines += [((text, role),) for text in wrap(sentence, width)]
    return lines


def matrix(found: Topology, view: str, width: int) -> list[Line]:
    """GPUs against GPUs; where it doesn't fit, the width that it needs."""
    gpus = found.gpus
    cells = {(one, other): _cell(found, view, one, other) for one in gpus for other in gpus}
    column = max(max(len(text) for text, _ in cells.values()), len(str(max(gpus)))) + 2
    first = len(f"GPU {max(gpus)}")
    if first + column * len(gpus) > width:
        sentence = f"the matrix of {len(gpus)} GPUs takes {first + column * len(gpus)} columns: z makes room"
        return [((text, "dim"),) for text in wrap(sentence, width)]
    head: Line = ((" " * first, ""), *((fit(str(gpu), column, right=True), "dim") for gpu in gpus))
    return [
        head,
        *(
            (
                (fit(f"GPU {one}", first), "dim"),
                *((fit(cells[one, other][0], column, right=True), cells[one, other][1]) for other in gpus),
            )
            for one in gpus
        ),
    ]


def _cell(found: Topology, view: str, one: int, other: int) -> Piece:
    if one == other:
        return SELF, "dim"
    if view == PEERS:
        status = found.p2p[_may(found)].get((one, other), "?")
        return clean_line(status), "good" if status == "OK" else "warn"
    kind = found.kind(one, other)
    if kind is None:
        return "?", "dim"
    role = "good" if topology.nvlinks(kind) is not None else "warn" if kind in ("SYS", "SOC", "NODE") else ""
    if view == KINDS:
        return clean_line(kind), role
    most = topology.ceiling(found, one, other)
    return (words.UNKNOWN, "dim") if most is None else (gpu_words.rate(most.gb_per_s), role)


def _may(found: Topology) -> str:
    """Which of the told kinds of peer access is shown; empty where none is told."""
    return next((may for may in ("read", "any", "write") if found.p2p.get(may)), "")


def _below(found: Topology, view: str) -> list[Piece]:
    if view == CEILINGS:
        told: list[Piece] = [(line, "") for line in topology_lines.kinds(found)]
        return [*told, ("A crowded switch, or the way through host memory, is slower than the GPUs' own links.", "dim")]
    if view == PEERS:
        seen = Counter(found.p2p[_may(found)].values())
        meanings = [f"{status}: {topology.P2P.get(status, 'unknown')}, {many} of {seen.total()} ordered pairs"
                    for status, many in seen.most_common()]  # fmt: skip
        return [*((text, "") for text in meanings), ("Without it NCCL goes through host memory.", "dim")]
    return [
        (topology_words.diagnosis(found), ""),
        *((line, "dim") for line in topology_lines.kinds(found)),
        *((line, "dim") for line in topology_lines.near(found)),
    ]


# The doctor -----------------------------------------------------------------------------------------------------------


def findings(found: Sequence[Finding], width: int) -> list[Line]:
    """The gravest first: what was found, why it matters, and what to do."""
    lines: list[Line] = []
    beside = width >= _NAMES_BESIDE
    names = min(max((len(finding.name) for finding in found), default=0), 16) if beside else 0
    indent = names + 5 if beside else 3
    for finding in sorted(found, key=lambda each: _GRAVEST_FIRST.index(each.level)):
        mark, role = _MARKS[finding.level]
        texts: list[Piece] = [(text, "") for text in wrap(finding.found, width - indent)]
        if finding.level != "ok":
            texts += [(text, "dim") for text in wrap(finding.why, width - indent) if text]
            advice = f"-> {finding.advice}" if finding.advice else ""
            texts += [(text, "accent") for text in wrap(advice, width - indent) if text]
        head: Line = ((mark, role), (" ", ""))
        if beside:
            lines.append((*head, (fit(finding.name, names), "strong"), ("  ", ""), texts.pop(0)))
        else:
            lines.append((*head, (fit(finding.name, width - indent), "strong")))
        lines += [((" " * indent, ""), text) for text in texts]
    return lines


def verdict(found: Sequence[Finding]) -> list[Piece]:
    """`1 breaks runs`, `2 warnings`: how grave it is, in few words."""
    counts = Counter(finding.level for finding in found)
    said: list[Piece] = []
    if counts["fail"]:
        said.append((f"{counts['fail']} {'breaks' if counts['fail'] == 1 else 'break'} runs", "bad"))
    if counts["warn"]:
        said += [(", ", "dim")] if said else []
        said.append((words.count(counts["warn"], "warning"), "warn"))
    return said or [("no warning", "good")]

"""What fsdp_compare finds out about a training that is shared out: what it holds and sends, and whether it is right.

Trainings are as fsdp_look has them. All functions are collectives: every rank calls them, rank 0 reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from labtui.bench import checkpoint, counted, fsdp_limits, gpt, peak, report, throughput, timing
from labtui.bench import race as racing
from labtui.bench.fsdp_look import MOMENTS, Course, Look, mean
from labtui.bench.group import Group
from labtui.theory import fsdp, sharded_step
from labtui.theory.models import GptShape

STEPS_AFTER = 3
"""Steps that are compared after loading: the second is the first one that the optimizer's state matters to."""


# ---- What the first steps showed.


def report_look(me: Group, settings: Any, training: Any, seen: Look) -> None:
    """Results, predictions and checks of the way that this run is about."""
    report_share(me, settings.way, seen.share)
    if me.rank != 0:
        return
    expected = fsdp_limits.expected(me, settings, training.shape, settings.way)
    for kind in ("parameters", "gradients", "optimizer"):
        report.prediction(
            f"{kind} held by a rank", getattr(expected, kind), seen.memory.after.get(kind, 0), "B",
            why="by ZeRO's formula; FSDP2 cuts each tensor by rows and fills up the last shard",
        )  # fmt: skip
    why = ", ".join(f"{name} {size / 1e6:.3g}" for name, size in expected.parts().items())
    report.prediction("peak memory of a rank", expected.peak, max(seen.peaks), "B", why=f"MB: {why}")
    for rank, size in enumerate(seen.peaks):
        report.result("peak_memory", size, "B", rank=rank)
    _report_traffic(me, settings, training.shape, seen)


def report_share(me: Group, way: str, share: float) -> None:
    """The share of all parameters that the rank that has most keeps, beside 1/N, or 1 where nothing is cut."""
    if me.rank == 0:
        parts = me.world_size if sharded_step.WAYS[way].stage == "zero3" else 1
        report.prediction("share of the parameters on a rank", 1 / parts, share)
        report.result("parameters_share", share, "")


def report_memory(me: Group, training: Any, seen: Look, beside: Any, other: Look | None) -> None:
    """What a rank held, by what it was for, and the same of what trained beside it."""
    if me.rank != 0:
        return
    for name, way, look in (("memory", training.way, seen), ("beside_memory", getattr(beside, "way", ""), other)):
        if look is not None:
            _print_memory(way, me.world_size, look)
            for category in _categories(look):
                for moment in MOMENTS:
                    size = getattr(look.memory, moment).get(category, 0)
                    report.result(name, size, "B", category=category, moment=moment)


def _print_memory(way: str, ranks: int, seen: Look) -> None:
    lines = [f"{way}, a rank of {ranks}, MB (1e6 B)".ljust(36) + f"{'peak':>14}{'after forward':>14}{'after step':>14}"]
    for category in _categories(seen):
        sizes = [getattr(seen.memory, moment).get(category, 0) / 1e6 for moment in MOMENTS]
        lines.append(f"  {category:34}" + "".join(f"{size:14,.2f}" for size in sizes))
    print("\n".join(lines))


def _categories(seen: Look) -> list[str]:
    """Those in which there is anything at any of the moments; the total last."""
    names = dict.fromkeys(name for moment in MOMENTS for name in getattr(seen.memory, moment))
    found = [name for name in names if any(getattr(seen.memory, moment).get(name, 0) for moment in MOMENTS)]
    return sorted(found, key=lambda name: name == "total")


def _report_traffic(me: Group, settings: Any, shape: GptShape, seen: Look) -> None:
    block, root, tensors = _numbers(settings.way, shape, me.world_size)
    expected = sharded_step.sent(
        settings.way, block, shape.layers, root, tensors, me.world_size, reshard_to=settings.reshard_to
    )
    for name, total in seen.totals.items():
        report.result("collectives", total.calls, "", collective=name)
        report.result("collective_bytes", total.bytes, "B", collective=name)
    report.result("bytes_on_wire", round(expected.ideal), "B")
    report.result("bytes_sent", seen.traffic.sent, "B")
    if me.world_size == 1:
        return
    nothing = counted.Total(0, 0, 0.0)
    for name, calls in expected.calls.items():
        report.check(f"{name} calls", seen.totals.get(name, nothing).calls, equal=calls)
    for name, size in expected.bytes.items():
        report.check(f"{name} bytes", seen.totals.get(name, nothing).bytes, equal=size)
    report.prediction(
        "bytes sent per rank and step", round(expected.ideal), seen.traffic.sent, "B",
        why=seen.traffic.why or "the least that an algorithm can do with",
    )  # fmt: skip
    if me.backend == "gloo" and expected.gloo != expected.ideal:
        report.prediction(
            "bytes sent per rank and step, as gloo does it", round(expected.gloo), seen.traffic.sent, "B",
            why="gloo's reduce-scatter is an all-reduce on the wire: twice the least",
        )  # fmt: skip


def _numbers(way: str, shape: GptShape, ranks: int) -> tuple[int, int, int]:
    """Of a block and of what no block has, with FSDP2's padding where it is used; and how many tensors there are."""
    with torch.device("meta"):
        model = gpt.Gpt(shape)
    parts = ranks if sharded_step.WAYS[way].stage == "zero3" else 1
    block = [tuple(weight.shape) for weight in model.blocks[0].parameters()]
    root = [tuple(weight.shape) for part in (model.embed, model.head) for weight in part.parameters()]
    tensors = len(block) * shape.layers + len(root)
    return fsdp.padded_unit(block, parts), fsdp.padded_unit(root, parts), tensors


# ---- Time, and whether both see the same.


def race(
    me: Group,
    settings: Any,
    course: Course,
    training: Any,
    seen: Look,
    beside: Any,
    other: Look | None,
    loss_bound: float,
    gradient_bound: float,
) -> None:
    """Takes timed steps of both in turn, then checks that losses, norms and gradients were the same all along."""
    steps = {"own": lambda: (training.step(training.batch()), training.norm)}
    looks = {"own": seen}
    if beside is not None and other is not None:
        steps["beside"] = lambda: (beside.step(beside.batch()), beside.norm)
        looks["beside"] = other
    times: dict[str, list[float]] = {name: [] for name in steps}
    for outcome in racing.alternating(steps, settings.rounds, me.device):
        for name, (seconds, (loss, norm)) in outcome.items():
            times[name].append(seconds)
            looks[name].losses.append(mean(me, loss))
            looks[name].norms.append(norm)
        course.advance()
    slowest = {name: timing.slowest(values, me.device) for name, values in times.items()}
    if me.rank != 0:
        return
    for name, one in ((training.way, seen), *([(beside.way, other)] if other is not None else [])):
        first = training.steps - len(one.losses) + 1  # not 1 after a checkpoint was loaded
        for step, (loss, norm) in enumerate(zip(one.losses, one.norms), first):  # noqa: B905 - Python 3.9
            report.metric("loss", loss, step, "nats", way=name)
            report.metric("gradient_norm", norm, step, "", way=name)
    report.result("loss", seen.losses[-1], "nats")
    clipped = sum(norm > settings.clip for norm in seen.norms)
    report.result("clipped_share", clipped / len(seen.norms), "")
    if not clipped:
        report.note(f"no gradient was longer than clip={settings.clip:g}: nothing was clipped, so it proves little")
    most = peak.of(me.device, "bfloat16" if sharded_step.WAYS[training.way].weight == 2 else "float32")
    rate = throughput.report_steps(training.shape, settings.micro_batch, me.world_size, slowest["own"], most)
    if other is None:
        report.note("beside=false: nothing to hold losses, gradients and times against")
        return
    ratios = [mine / theirs for mine, theirs in zip(slowest["own"], slowest["beside"])]  # noqa: B905 - Python 3.9
    timing.report_spread(f"step_time_over_{beside.way}", ratios, "")
    spread = timing.report_spread("beside_step_time", [seconds * 1e3 for seconds in slowest["beside"]], "ms")
    for rank, size in enumerate(other.peaks):
        report.result("beside_peak_memory", size, "B", rank=rank)
    report.result("beside_bytes_sent", other.traffic.sent, "B")
    tokens = rate * timing.spread(slowest["own"]).median
    report.result("beside_tokens_per_s", tokens / (spread.median / 1e3), "tokens/s")
    _check_the_same(seen, other, _whose(training.way), loss_bound, gradient_bound)


def _whose(way: str) -> str:
    return "one process's" if fsdp_limits.against(way) == "alone" else "DDP's"


def _check_the_same(seen: Look, other: Look, whose: str, loss_bound: float, gradient_bound: float) -> None:
    off = {"losses": _apart(seen.losses, other.losses), "norms": _apart(seen.norms, other.norms)}
    difference = sum((mine - right).norm() ** 2 for mine, right in zip(seen.gradients, other.gradients))  # noqa: B905
    off["gradients"] = (difference / sum(right.norm() ** 2 for right in other.gradients)) ** 0.5
    report.result("loss_difference", off["losses"], "")
    report.result("gradient_difference", off["gradients"], "")
    report.check(f"losses equal {whose}", off["losses"], at_most=loss_bound)
    report.check(f"gradient norms equal {whose}", off["norms"], at_most=gradient_bound)
    report.check(f"clipped gradients equal {whose}", off["gradients"], at_most=gradient_bound)


def _apart(mine: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest difference, over the size of what it should be."""
    return max(abs(a - b) / abs(b) for a, b in zip(mine, theirs))  # noqa: B905 - Python 3.9


# ---- After a checkpoint.


def first_ranks(me: Group, count: int) -> tuple[Any, Any]:
    """A process group of the first `count` ranks, and for those a mesh; None for the others."""
    from torch.distributed.device_mesh import DeviceMesh

    some = dist.new_group(list(range(count)))  # a collective, for those outside too
    if me.rank >= count:
        return some, None
    return some, DeviceMesh.from_group(some, me.device.type, mesh_dim_names=("dp",))


def compare_resumed(me: Group, training: Any, resumed: Any, some: Any, fewer: int, bound: float) -> None:
    """Two checks: what was loaded equals what was saved, bit by bit; and both go on with the same losses."""
    wrong = checkpoint.differences(training, resumed)
    off = 0.0
    for _ in range(STEPS_AFTER):
        loss = mean(me, training.step(training.batch()))
        if resumed is not None:
            again = resumed.step(resumed.batch()).clone()
            dist.all_reduce(again, group=some)
            off = max(off, abs(again.item() / fewer / loss - 1))
        dist.barrier()  # at each step: those outside may wait for a collective only so long
    if me.rank == 0:
        report.result("resumed_ranks", fewer, "")
        report.check("loaded state equals the saved one, bit by bit", wrong, equal=0)
        report.check("losses after loading equal those without", off, at_most=bound)

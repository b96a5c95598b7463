"""What experiment fsdp_at_scale says of a step: memory and traffic beside theory, pretended ones beside real ones."""

from __future__ import annotations

from typing import Any

from labtui.bench import report, tracker
from labtui.bench.counted import Total
from labtui.theory import collectives, fsdp, memory, models
from labtui.theory.models import GptShape

MB = 1e6
MOMENTS = ("peak", "forward", "after")
ENOUGH = 0.01
"""How far a category may be off, as a share of it."""


# ---- Pretended beside real.


def compare(rank: int, real: Any, step: Any) -> None:
    """Two checks, on each rank: memory in every category and moment within 1 %, and the very same collectives."""
    off: dict[str, float] = {}
    for moment in MOMENTS:
        theirs, ours = getattr(real.memory, moment), getattr(step.memory, moment)
        for category in sorted(theirs.keys() | ours.keys()):
            off[f"{category} ({moment})"] = apart(theirs.get(category, 0), ours.get(category, 0))
            if rank == 0 and any(getattr(real.memory, each).get(category) for each in MOMENTS):
                report.result("real_memory", theirs.get(category, 0), "B", category=category, moment=moment)
    worst = max(off, key=lambda name: off[name])
    if off[worst] > ENOUGH:
        report.note(f"furthest from the real step: {worst}, {off[worst]:.0%} off")
    report.check("every category within 1 % of the real step", off[worst], at_most=ENOUGH)
    report.check("the same collectives as in the real step", step.seen.calls == real.seen.calls)


def apart(real: int, pretended: int) -> float:
    """By which share of the larger one two sizes differ: 0 for equal ones, 1 where only one of them is there."""
    return abs(real - pretended) / max(real, pretended, 1)


# ---- Beside theory.


def report_step(shape: GptShape, settings: Any, ranks: int, step: Any) -> None:
    """Results, predictions and checks of one (pretended) step of a rank of `ranks`."""
    weight = 2 if settings.precision == "bfloat16" else 4
    report_memory(step, ranks)
    report.check("parameters by formula and by counting", step.parameters, equal=models.parameters(shape))
    report_state(step, ranks)
    report_moment(shape, settings, ranks, step, weight)
    report_traffic(settings, ranks, step, weight)


def report_memory(step: Any, ranks: int) -> None:
    head = f"one rank of {ranks}, in MB"
    lines = [f"{head:28}{'peak':>16}{'after forward':>16}{'after step':>16}"]
    for category in step.memory.peak:
        sizes = [getattr(step.memory, moment).get(category, 0) for moment in MOMENTS]
        if max(sizes):  # buffers, for one, this model has none
            for moment, size in zip(MOMENTS, sizes):  # noqa: B905 - Python 3.9
                report.result("memory", size, "B", category=category, moment=moment)
            lines.append(f"  {category:26}" + "".join(f"{size / MB:16,.1f}" for size in sizes))
    print("\n".join(lines))
    print(f"  ({tracker.HOW})")


def report_state(step: Any, ranks: int) -> None:
    """Parameters, gradients and optimizer state: 4, 4 and 8 bytes a parameter over N, and exactly, with padding."""
    plain = memory.state_bytes(step.parameters, ranks, "zero3", memory.FP32_ADAM)
    for name in ("parameters", "gradients", "optimizer"):
        report.prediction(
            f"{name} held by a rank", getattr(plain, name), step.memory.after[name], "B",
            why="by ZeRO's formula; FSDP2 cuts each tensor by rows and fills up the last shard",
        )  # fmt: skip
    tensors = [shape for unit in [*step.blocks, step.root] for shape in unit]
    stored = fsdp.padded_unit(tensors, ranks)
    report.check("bytes of parameters with padding", step.memory.after["parameters"], equal=4 * stored // ranks)
    report.result("padding", stored / step.parameters - 1, "")


def report_moment(shape: GptShape, settings: Any, ranks: int, step: Any, weight: int) -> None:
    """Weights that are gathered, activations, the peak."""
    tokens = settings.sequences * shape.context
    block, root = fsdp.padded_unit(step.blocks[0], ranks), fsdp.padded_unit(step.root, ranks)
    expected = fsdp.step(
        shape.layers * block + root, block, shape.layers, root=root,
        late=shape.vocabulary * shape.width,
        ranks=ranks,
        activations=memory.activation_bytes_per_layer(
            shape, shape.context, settings.sequences, fused_attention=True, dropout=False, element=weight
        ),
        outside=weight * tokens * (2 * shape.width + shape.vocabulary),
        weight=weight,
        reshard=settings.reshard,
    )  # fmt: skip
    peak = step.memory.peak
    gathered = peak["unsharded parameters"] + peak["all-gather buffers"]
    which = "of the root, a block and the next one" if settings.reshard else "of all blocks"
    report.prediction(
        "gathered weights at the peak",
        expected.gathered,
        gathered,
        "B",
        why=f"{which}, padded, {weight} B each; none in AdamW's step",
    )
    report.prediction(
        "activations after forward", expected.activations, step.memory.forward["activations"], "B",
        why=f"16 widths of {weight} B for each token and block (arXiv 2205.05198 without dropout and scores), and the "
        "last norm's input and output and the log-probabilities",
    )  # fmt: skip
    report.prediction(
        "total at the peak", expected.peak, peak["total"], "B",
        why="state, gathered weights, activations, whole gradients of the output layer and a block; or AdamW's step",
    )  # fmt: skip


def report_traffic(settings: Any, ranks: int, step: Any, weight: int) -> None:
    """What a step sends: exactly, by FSDP2's rules, and by the textbook's three times the parameters."""
    totals = {"all_gather": Total(0, 0, 0.0), "reduce_scatter": Total(0, 0, 0.0), **step.seen.totals()}
    for name, total in totals.items():
        report.result("collectives", total.calls, "", collective=name)
        report.result("collective_bytes", total.bytes, "B", collective=name)
    sent = step.seen.sent()
    report.result("bytes_sent", sent, "B")
    exact = fsdp.traffic(
        [fsdp.padded_unit(unit, ranks) for unit in step.blocks], fsdp.padded_unit(step.root, ranks), ranks,
        weight=weight, reshard=settings.reshard,
    )  # fmt: skip
    for name, calls, size in (
        ("all_gather", exact.all_gathers, exact.all_gather_bytes),
        ("reduce_scatter", exact.reduce_scatters, exact.reduce_scatter_bytes),
    ):
        report.check(f"{name} calls", totals[name].calls, equal=calls)
        report.check(f"{name} bytes with padding", totals[name].bytes, equal=size)
    textbook = fsdp.textbook_sent(step.parameters, ranks, weight=weight, reshard=settings.reshard)
    gathers = "two all-gathers" if settings.reshard else "an all-gather"
    report.prediction(
        "bytes sent by a rank", textbook, sent, "B",
        why=f"{gathers} and a reduce-scatter of all parameters; FSDP2 gathers the root once, and pads",
    )  # fmt: skip
    ddp = collectives.all_reduce_bytes(4 * step.parameters, ranks)
    report.result("bytes_sent_by_ddp", ddp, "B")

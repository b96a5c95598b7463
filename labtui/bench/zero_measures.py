"""What zero_by_hand finds out about each stage: whether it trains right, what a rank holds of it, what it sends.

A training here has `layers` (`flat_layer.FlatLayer`, whose `weights` and `gradient` are whole or this rank's part, with
an `adamw` that has `mean` and `mean_square`), `activations`, `loss`, `step(x, y, look)` and `whole(layer)`. All
functions are collectives: every rank calls them, rank 0 reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

from labtui.bench import agreement, counted, hardware, held, report, timeline, wire
from labtui.bench.group import Group
from labtui.theory import collectives, memory

WITHIN = 0.02
"""How far, as a share, what is held may be from the formula."""
# Two orders of adding float32 numbers differ in the last bits of a gradient. In a weight that becomes more: AdamW
# divides a gradient by its own size, so where it is next to nothing, its rounding error moves a weight as far as any.
# Only rounding shrinks in float64. Next to both stands what a mistake would be as large as.
GRADIENTS_OFF = {"float32": 1e-6, "float64": 1e-14}
WEIGHTS_OFF = {"float32": 1e-4, "float64": 1e-12}

_GRADIENTS_AVERAGED, _BACKWARD_ENDS, _FORWARD_ENDS = "gradients averaged", "backward ends", "forward ends"
_COUNTED_WHEN = {
    "parameters": _BACKWARD_ENDS,
    "gradients": _BACKWARD_ENDS,  # when they are all there, and not yet used
    "optimizer": _BACKWARD_ENDS,
    "activations": _FORWARD_ENDS,  # when they are all there; backward uses them up
    held.OTHER: _BACKWARD_ENDS,
}
_ISSUED = {
    "ddp": {"all_reduce": 1},
    "zero1": {"reduce_scatter": 1, "all_gather": 1},
    "zero2": {"reduce_scatter": 1, "all_gather": 1},
    "zero3": {"reduce_scatter": 1, "all_gather": 2},  # for forward, for backward
}
"""Per layer and step. Rajbhandari et al., arXiv 1910.02054, section 7: so 1, 1, 1 and 1.5 times DDP's bytes."""


@dataclass(frozen=True)
class Right:
    """What one process finds, one flat tensor for each layer: weight, then bias."""

    before: Sequence[torch.Tensor]
    """Weights before the first step."""
    gradients: Sequence[torch.Tensor]
    """Of the first step."""
    weights: Sequence[torch.Tensor]
    """After the last one."""


def by_layer(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """A copy of weight, bias, weight, bias, ... as one flat tensor for each pair."""
    flat = [tensor.detach().flatten() for tensor in tensors]
    return [torch.cat(pair) for pair in zip(flat[::2], flat[1::2])]  # noqa: B905 - Python 3.9


def refuse_what_cant_be(me: Group, settings: Any) -> None:
    """Ends the run where memory won't suffice. Notes where there is nothing to cut."""
    element = torch.get_default_dtype().itemsize
    parameters = settings.layers * (settings.width**2 + settings.width) + settings.width + 1
    # At the end all stages are there at once, one of them with its gradients; and what one process found.
    rests = [_formula(parameters, me.world_size, stage) for stage in _ISSUED]
    needed = sum(rest["parameters"] + rest["optimizer"] for rest in rests) + 3 * element * parameters
    # One process keeps the activations of all ranks' batches.
    needed += element * me.world_size * settings.batch_per_rank * settings.width * (settings.layers + 2)
    what = f"layers={settings.layers} and width={settings.width}, at all four stages side by side"
    hardware.refuse_beyond_memory(me, int(needed), what)
    hardware.note_mixed_gpus(me)
    if me.world_size == 1:
        report.note("one process has nobody to share with: nothing is cut, and all four stages hold the same")


def prove(
    me: Group,
    settings: Any,
    stages: Iterable[str],
    start: Callable[[str], Any],
    batch: Sequence[torch.Tensor],
    right: Right,
) -> None:
    """Takes each stage through the same steps: compares with one process, then counts what is held and sent."""
    if me.rank == 0:
        weakest = min(gradient.abs().max().item() for gradient in right.gradients)
        report.result("largest_gradient", weakest)  # in the layer where it is smallest
        moved = [(after - before).abs().max().item() for before, after in zip(right.before, right.weights)]  # noqa: B905
        report.result("largest_change", min(moved))  # of a weight, in the layer where it is smallest
    sent: dict[str, int | None] = {}
    for stage in stages:
        training = start(stage)
        if not sent:
            _note_padding(me, training)
        _compare(me, settings, stage, training, batch, right)
        _report_held(me, settings, stage, training, batch)
        sent[stage] = _report_sent(me, stage, training, batch)
        with timeline.recording(stage, nn.Module(), me.device):
            training.step(*batch)
    if me.rank == 0:
        _report_ratios(me, sent)


def _note_padding(me: Group, training: Any) -> None:
    padded, numbers = _padded(training), sum(layer.count for layer in training.layers)
    if padded > numbers and me.rank == 0:
        report.note(
            f"{me.world_size} ranks don't divide every layer: zeros fill its {numbers:,} parameters up to {padded:,}, "
            "and are held and sent as well"
        )


def _compare(me: Group, settings: Any, stage: str, training: Any, batch: Any, right: Right) -> None:
    off: dict[str, float] = {}

    def look(moment: str) -> None:
        if moment == _GRADIENTS_AVERAGED and not off:
            off["gradients"] = _off(me, training, [layer.gradient for layer in training.layers], right.gradients)

    for _ in range(settings.steps):
        training.step(*batch, look)
    # Each rank's weights as they are, parts included: over all ranks, nothing is left out.
    off["weights"] = _off(me, training, [layer.weights for layer in training.layers], right.weights)
    loss = training.loss.clone()
    dist.all_reduce(loss)
    whole = nn.ParameterList([training.whole(layer) for layer in training.layers])
    apart = agreement.apart(me, whole)
    if me.rank == 0:
        report.check(
            f"gradients equal the full batch's ({stage})", off["gradients"], at_most=GRADIENTS_OFF[settings.dtype]
        )
        report.check(f"weights equal one process's ({stage})", off["weights"], at_most=WEIGHTS_OFF[settings.dtype])
        report.check(f"weights identical on all ranks ({stage})", apart, equal=0)
        report.result("gradient_difference", off["gradients"], way=stage)
        report.result("weight_difference", off["weights"], way=stage)
        report.result("loss", loss / me.world_size, way=stage)  # of the last of these steps


def _off(me: Group, training: Any, mine: Sequence[torch.Tensor], right: Sequence[torch.Tensor]) -> float:
    """The largest difference from what is right, of all ranks, whether a rank has the whole or only its part."""
    same = []
    for layer, own, theirs in zip(training.layers, mine, right):  # noqa: B905 - Python 3.9
        padded = F.pad(theirs, (0, layer.padding))
        same.append(padded if len(own) == len(padded) else padded[layer.mine])
    return agreement.off_reference(me, mine, same)


def _report_held(me: Group, settings: Any, stage: str, training: Any, batch: Sequence[torch.Tensor]) -> None:
    found = held.largest(me, held.during(lambda look: training.step(*batch, look), lambda: _named(training), batch))
    if me.rank != 0:
        return
    element = torch.get_default_dtype().itemsize
    formula = _formula(sum(layer.count for layer in training.layers), me.world_size, stage)
    formula["activations"] = element * settings.batch_per_rank * (settings.width * settings.layers + 1)
    for kind, size in formula.items():
        moment = _COUNTED_WHEN[kind]
        report.prediction(f"{kind} when {moment} ({stage})", round(size), found.at[moment][kind], "B")
    for kind, moment in _COUNTED_WHEN.items():
        report.result("bytes_held", found.at[moment][kind], "B", way=stage, kind=kind)
    state = sum(found.at[_BACKWARD_ENDS][kind] for kind in ("parameters", "gradients", "optimizer"))
    report.result("state_held", state, "B", way=stage)  # all that ZeRO may cut
    report.result("peak_memory", found.peak, "B", way=stage)

    # With the padding: how much that is, is no question of right or wrong.
    exact = _formula(_padded(training), me.world_size, stage)
    then = found.at[_BACKWARD_ENDS]
    off = [abs(then[kind] / size - 1) for kind, size in exact.items()]
    unnamed = then[held.OTHER] / sum(exact.values())
    report.check(f"a rank holds what the formula says ({stage})", max(*off, unnamed), at_most=WITHIN)


def _named(training: Any) -> dict[str, list[torch.Tensor]]:
    """What a training says it holds at this moment."""
    layers = training.layers
    return {
        "parameters": [layer.weights for layer in layers],
        "gradients": [layer.gradient for layer in layers if layer.gradient is not None],
        "optimizer": [state for layer in layers for state in (layer.adamw.mean, layer.adamw.mean_square)],
        "activations": training.activations[1:],  # the first is the batch
        "loss": [] if training.loss is None else [training.loss],  # of no interest, but no leak either
    }


def _formula(parameters: int, ranks: int, stage: str) -> dict[str, float]:
    """All in one precision: weights, gradients, and AdamW's two averages."""
    element = torch.get_default_dtype().itemsize
    state = memory.state_bytes(parameters, ranks, stage, memory.Recipe("", element, element, 2 * element, ""))
    return {"parameters": state.parameters, "gradients": state.gradients, "optimizer": state.optimizer}


def _padded(training: Any) -> int:
    return sum(layer.count + layer.padding for layer in training.layers)


def _report_sent(me: Group, stage: str, training: Any, batch: Any) -> int | None:
    """What a step sends, as the collectives that it issues require and as the kernel counts; returns the latter."""
    with counted.Counted() as issued:
        traffic = wire.count(lambda: training.step(*batch), me.device)
    if me.rank != 0:
        return traffic.sent
    size = torch.get_default_dtype().itemsize * _padded(training)
    starts = len(training.layers) * sum(_ISSUED[stage].values())
    report.prediction(f"collectives per step ({stage})", starts, len(issued.calls))
    report.prediction(
        f"bytes per rank and step, at best ({stage})", round(_sends(me, stage, size)), round(issued.sent()), "B",
        why="measured: the collectives that were issued, by the best algorithm for each",
    )  # fmt: skip
    why = traffic.why
    if _gloo_sends_more(me) and stage != "ddp":
        why = why or "gloo's reduce_scatter is an all_reduce on the wire, twice the best"
    sends = round(_sends(me, stage, size, me.backend))
    report.prediction(f"bytes sent per rank and step ({stage})", sends, traffic.sent, "B", why=why)
    report.result("collectives", len(issued.calls), way=stage)
    report.result("bytes_on_wire", round(issued.sent()), "B", way=stage)
    report.result("bytes_sent", traffic.sent, "B", way=stage)
    return traffic.sent


def _sends(me: Group, stage: str, size: float, backend: str = "nccl") -> float:
    """Bytes that a rank sends in a step of a model of `size` bytes: by rings, or as that backend does it."""
    return sum(
        times * collectives.cost(collective, size, me.world_size, backend).busiest
        for collective, times in _ISSUED[stage].items()
    )


def _gloo_sends_more(me: Group) -> bool:
    return me.backend == "gloo" and me.world_size > 1


def _report_ratios(me: Group, sent: Mapping[str, int | None]) -> None:
    """Each stage's bytes over those of plain data parallelism."""
    if me.world_size == 1:
        return
    for stage, own in sent.items():
        ddps = sent["ddp"]
        report.result("times_ddp", _sends(me, stage, 1) / _sends(me, "ddp", 1), way=stage, count="best")
        report.result("times_ddp", own / ddps if own and ddps else None, way=stage, count="measured")
    if _gloo_sends_more(me):
        report.note(
            "gloo does a reduce-scatter as an all-reduce, with twice the bytes: here ZeRO 1 and 2 send 1.5 times what "
            "DDP sends and ZeRO 3 sends 2 times, where NCCL's rings need 1, 1 and 1.5 times"
        )

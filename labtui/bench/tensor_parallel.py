"""What tensor_parallel finds out about a block that ranks share: is it right, what does it exchange, keep and wait for.

Knows nothing of how a block is cut: an experiment says for each way to do it (a `Trial`) which tokens and which piece
of each parameter a rank has. All functions are collectives: every rank calls them, rank 0 reports.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from labtui.bench import clock, expected, held, profile, report, timeline, wire
from labtui.bench.counted import Counted
from labtui.bench.group import Group
from labtui.theory import collectives, flops
from labtui.theory import tensor_parallel as theory


def everything(whole: torch.Tensor) -> torch.Tensor:
    """Which tokens a rank has where it has all of them."""
    return whole


def own_tokens(group: Group) -> Callable[[torch.Tensor], torch.Tensor]:
    """Which tokens a rank has where they are cut: each rank as many, in the order of ranks."""
    return lambda whole: whole.chunk(group.world_size, dim=1)[group.rank]


def _all_of_it(name: str, whole: torch.Tensor) -> torch.Tensor:
    return whole


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Trial:
    """One way to share a module among all ranks, seen from one of them."""

    part: str
    """Of a block: "attention", "mlp" or "block"."""
    way: str
    module: nn.Module
    tokens: Callable[[torch.Tensor], torch.Tensor] = everything
    """[b, s, h] -> those tokens that go into this rank's module, and come out of it."""
    piece: Callable[[str, torch.Tensor], torch.Tensor] = _all_of_it
    """A parameter's name, something of the whole parameter's shape -> the piece that this rank has. (A DTensor's
    gradient is made whole before it is looked at.)"""
    finish: Callable[[], None] = _nothing
    """Called after backward: adds up gradients of which ranks have found parts."""

    @property
    def label(self) -> str:
        return f"{self.part}, {self.way}"


@dataclass(frozen=True)
class Reference:
    """What one process finds that has the whole module."""

    x: torch.Tensor
    direction: torch.Tensor
    """The gradient that enters at the output."""
    output: torch.Tensor
    input_gradient: torch.Tensor
    weight_gradients: Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Exchanges:
    """Collectives that were issued, as words such as "2 all_gather + 2 reduce_scatter"; "none" if there were none."""

    forward: str
    backward: str
    count: int
    """Of both."""
    ideal: float
    """Bytes that this rank sends for both with a perfect algorithm."""
    by_backend: float
    """The same as this backend's algorithms do it."""


def reference(module: nn.Module, x: torch.Tensor, direction: torch.Tensor) -> Reference:
    """One process's output and gradients. Leaves no gradients behind."""
    mine = x.clone().requires_grad_()
    output = module(mine)
    output.backward(direction)
    gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
    module.zero_grad(set_to_none=True)
    return Reference(x, direction, output.detach(), mine.grad, gradients)


def prove(
    group: Group, trial: Trial, right: Reference, at_most: float, forward: str = "", backward: str = ""
) -> Exchanges:
    """Checks output, input gradient and all weight gradients of one step, and what it exchanged if that is given.

    A difference is the largest over all elements and ranks, over the largest element of the whole right tensor; of the
    weights the worst. Reports results `difference` (labels part, way, of) and `exchanges` (part, way, phase,
    collective).
    """
    x = trial.tokens(right.x).clone().requires_grad_()
    with Counted() as step:
        output = trial.module(x)
        output.backward(trial.tokens(right.direction))
    with Counted() as afterwards:
        trial.finish()
    differences = {
        "output": _relative(group, output, trial.tokens(right.output), right.output),
        "input gradient": _relative(group, x.grad, trial.tokens(right.input_gradient), right.input_gradient),
        "weight gradients": _worst([
            _relative(group, _whole(parameter.grad), trial.piece(name, right.weight_gradients[name]),
                      right.weight_gradients[name])
            for name, parameter in trial.module.named_parameters()
        ]),
    }  # fmt: skip
    trial.module.zero_grad(set_to_none=True)
    phases = {
        "forward": step.counts(backward=False),
        "backward": step.counts(backward=True),
        "after": afterwards.counts(),
    }
    if group.rank == 0:
        for of, difference in differences.items():
            verb = "equal" if of.endswith("s") else "equals"
            report.check(f"{of} {verb} one process's ({trial.label})", difference, at_most=at_most)
            report.result("difference", difference, "", part=trial.part, way=trial.way, of=of)
        for phase, counts in phases.items():
            for collective, count in sorted(counts.items()):
                report.result(
                    "exchanges", count, "", part=trial.part, way=trial.way, phase=phase, collective=collective
                )
        for phase, wanted in (("forward", forward), ("backward", backward)):
            if wanted:
                report.check(f"exchanges in {phase} ({trial.label})", _words(phases[phase]), equal=wanted)
        print(f"{trial.label:<28} off by {_worst(list(differences.values())):7.1e}   "
              f"forward: {_words(phases['forward'])}; backward: {_words(phases['backward'])}")  # fmt: skip
    sent = sum(collectives.cost(call.collective, call.bytes, call.ranks, group.backend).busiest for call in step.calls)
    return Exchanges(_words(phases["forward"]), _words(phases["backward"]), len(step.calls), step.sent(), sent)


def _relative(group: Group, mine: torch.Tensor | None, right: torch.Tensor, whole: torch.Tensor) -> float:
    """The largest |mine - right| over all ranks, over the largest |whole|; NaN where there is nothing to compare."""
    off = float("nan") if mine is None or mine.shape != right.shape else (mine.detach() - right).abs().max().item()
    return group.largest(off) / float(whole.abs().max())


def _worst(differences: Sequence[float]) -> float:
    """The largest, or NaN if there is one, which `max` may lose."""
    return max(differences, key=lambda each: (each != each, each))


def _whole(gradient: Any) -> Any:
    """A DTensor's gradient as the whole tensor, what ranks have in parts added up; another as it is."""
    return gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient


def _words(counts: Mapping[str, int]) -> str:
    return " + ".join(f"{count} {name}" for name, count in sorted(counts.items())) or "none"


# ---- Memory.

WHY = {
    theory.ALL_REDUCES: "Korthikanti et al. 2022 without dropout and without a score matrix: 4 + 12/t tensors",
    theory.SEQUENCE_PARALLEL: "the same with tokens cut, the gathered ones kept: 2 + 14/t tensors",
    theory.SEQUENCE_PARALLEL_LEAN: "the same with tokens cut, gathered again in backward: 16/t tensors",
}
"""Where the predicted bytes are from; a tensor is all tokens of all sequences, [b, s, h]."""


def report_kept(
    group: Group, trial: Trial, block: theory.Block, x: torch.Tensor, layout: str = theory.ALL_REDUCES
) -> None:
    """Holds what a block keeps for backward against theory: tensors alive after forward that weren't before."""
    mine = trial.tokens(x).clone().requires_grad_()

    def forward(look: Callable[[str], None]) -> None:
        output = trial.module(mine)  # alive while we look: so are the tensors that its backward needs
        look("forward")
        del output

    parameters = list(trial.module.parameters())
    kept = held.during(forward, lambda: {"parameters": parameters}, [mine]).at["forward"][held.OTHER]
    if group.rank == 0:
        ranks = 1 if trial.way == "one_process" else group.world_size
        predicted, why = theory.kept(block, ranks, x.element_size(), layout), WHY[layout]
        if x.is_cuda and x.dtype == torch.float64:
            why += "; on GPUs no fused attention takes float64, so score matrices come on top"
        report.prediction(
            f"activation bytes per rank ({trial.label})", round(sum(predicted.values())), kept, "B", why=why
        )
        report.result("activation_bytes", kept, "B", part=trial.part, way=trial.way)


# ---- Bytes on the wire.


def report_sent(group: Group, trial: Trial, right: Reference, exchanges: Exchanges) -> None:
    """Holds the bytes that leave this rank in forward and backward against theory, and tells what would be ideal."""
    step = _step(trial.module, trial.tokens(right.x), trial.tokens(right.direction))

    def until_all_are_through() -> None:
        step()
        dist.barrier()  # a rank may be through while its last bytes still wait; the others' can't be without them

    dist.barrier()
    traffic = wire.count(until_all_are_through, group.device)
    if group.rank != 0:
        return
    why = [traffic.why] if traffic.why else []
    if exchanges.by_backend > exchanges.ideal:
        why.append(
            f"{group.backend} makes of each reduce-scatter an all-reduce; ideal would be {round(exchanges.ideal)} B"
        )
    report.prediction(
        f"bytes sent per rank ({trial.label})", round(exchanges.by_backend), traffic.sent, "B", why="; ".join(why)
    )
    report.result("bytes_sent", traffic.sent, "B", part=trial.part, way=trial.way)
    report.result("bytes_ideal", round(exchanges.ideal), "B", part=trial.part, way=trial.way)


# ---- Time.


def report_timeline(group: Group, trial: Trial, right: Reference) -> None:
    """Puts one step on the timeline: its exchanges, and between them the computing that waits for them."""
    step = _step(trial.module, trial.tokens(right.x), trial.tokens(right.direction))
    dist.barrier()
    with timeline.recording(trial.way, nn.Module(), group.device) as recording, timeline.span("step", "the whole step"):
        step()
    (whole,) = (span for span in recording.spans if span.lane == "step")
    begin = whole.start
    for exchange in (span for span in recording.spans if span.lane == timeline.COMMUNICATION):
        report.add_span(timeline.COMPUTE, f"{trial.way}: compute", begin, exchange.start)
        begin = exchange.end
    report.add_span(timeline.COMPUTE, f"{trial.way}: compute", begin, whole.end)


def report_time(
    group: Group, block: theory.Block, dtype: str, modules: Mapping[str, nn.Module], x: torch.Tensor,
    direction: torch.Tensor, seconds: float,
) -> None:  # fmt: skip
    """Times a block's forward and backward, and says what its exchanges cost and which link would make them pay.

    `modules`: "one_process" (the whole block on each rank), "shared" and "silent" (a rank's share of it, with and
    without its exchanges), which are timed in turn with the exchanges alone.
    """
    steps: dict[str, Callable[[], object]] = {name: _step(module, x, direction) for name, module in modules.items()}
    message = torch.zeros_like(x)

    def exchange() -> None:
        for _ in range(EXCHANGES):
            dist.all_reduce(message)

    steps["exchanges"] = exchange
    times = clock.alternate(group, steps, seconds)
    if group.rank != 0:
        return
    one, shared, silent, exchanges = (statistics.median(times[name]) for name in (*modules, "exchanges"))
    for name, values in times.items():
        report.result("block_time", statistics.median(values) * 1e3, "ms", of=name)

    link = expected.link(group.device.type)
    cost = collectives.cost("all_reduce", theory.exchanged(block, x.element_size()), group.world_size, group.backend)
    waiting = EXCHANGES * cost.seconds(link.link)
    computing = f"computing takes {silent * 1e3:.3g} ms, measured without exchanges"
    report.prediction("exchanges of a block", waiting * 1e3, exchanges * 1e3, "ms", why=link.words)
    report.prediction(
        "a block's waiting over its computing", waiting / silent, exchanges / silent, why=f"{link.words}; {computing}"
    )
    report.prediction("speed-up over one process", one / (silent + waiting), one / shared, why=link.words)
    report.result("waiting_over_computing", exchanges / silent, "")
    sentence = f"on this link a layer would wait {waiting / silent:.2g} times longer than it computes"
    report.note(f"{sentence} ({link.words}; {computing})")
    print(sentence)
    _report_paying_link(group, block, dtype, EXCHANGES * cost.busiest, one, silent)
    for machine in flops.PUBLISHED_BALANCES:
        # In the format that training there uses, and a width of 4096, that of a model with 7e9 parameters.
        waits = theory.waiting_over_computing(machine.flops_per_byte, group.world_size, 4096, element=2)
        report.result("published_waiting_over_computing", waits, "", machine=machine.machine, width=4096)


EXCHANGES = 4
"""All-reduces of a block: two in forward, two in backward."""


def _report_paying_link(group: Group, block: theory.Block, dtype: str, sent: float, one: float, silent: float) -> None:
    rate = theory.paying_rate(sent, one, silent)
    known = profile.current()
    predicted, words = None, "nothing is predicted without a profile of this machine (run link_vs_compute first)"
    if known is not None and dtype in known.tflops:
        seconds = flops.FORWARD_AND_BACKWARD * block.forward_flops / (known.tflops[dtype] * 1e12)
        predicted = theory.paying_rate(sent, seconds, seconds / group.world_size)
        words = f"predicted at {known.tflops[dtype]:.3g} TFLOP/s, this machine's best {dtype} product{known.measured}"
    why = f"{words}; measured: from the times of the whole block and of a share of it"
    if rate is None:
        why += ", and here a share takes no less than the whole"
    report.prediction(
        "link from which on sharing pays", None if predicted is None else predicted / 1e9,
        None if rate is None else rate / 1e9, "GB/s", why=why,
    )  # fmt: skip
    report.result("paying_link", None if rate is None else rate / 1e9, "GB/s")


def _step(module: nn.Module, x: torch.Tensor, direction: torch.Tensor) -> Callable[[], None]:
    """Forward and backward, with gradients that are new each time."""
    mine = x.clone().requires_grad_()
    leaves: Sequence[torch.Tensor] = [mine, *module.parameters()]

    def step() -> None:
        for leaf in leaves:
            leaf.grad = None
        module(mine).backward(direction)

    return step

"""How many activations a device holds at most. It follows from the order alone: time plays no part."""

from __future__ import annotations

from collections.abc import Iterator

from labtui.theory.pipeline.order import Action, Actions, Order


def flat(steps: Actions) -> Iterator[Action]:
    """The actions of a device, a pair as its forward and then its backward."""
    for step in steps:
        if len(step) == 2:
            yield from step
        else:
            yield step


def peak_in_flight(order: Order) -> tuple[int, ...]:
    """By device, the most (micro-batch, stage) pieces whose activations it holds at once.

    One more from the start of an F until the end of its B, or of its W where the backward is split.
    """
    peaks = []
    for steps in order.devices:
        held = peak = 0
        for kind, _, _ in flat(steps):
            if kind == "F":
                held += 1
                if held > peak:
                    peak = held
            elif kind != "I":
                held -= 1
        peaks.append(peak)
    return tuple(peaks)


def peak_memory(order: Order, until_b: float = 1.0, until_w: float = 1.0) -> tuple[float, ...]:
    """By device, the most activations held at once, in units of one device's whole share of a micro-batch.

    A piece (one micro-batch in one stage) counts 1/n of that where the micro-batch passes n stages of the device.
    A piece is `until_b` large from its F until its B or I, and from its I until its W `until_w` (Zero Bubble's M_B and
    M_W, arXiv 2401.10241 section 2.3; there M_W is the smaller). With the default 1 and 1 a split backward frees its
    piece at its W only. A pair holds its new piece beside the old one.
    """
    peaks = []
    ways = order.route_of or (0,) * order.microbatches
    for device, steps in enumerate(order.devices):
        shares = [way.count(device) or 1 for way in order.routes]
        # Counts rather than sums: thousands of thirds added and taken away would not come out even.
        whole, split = [0] * len(shares), [0] * len(shares)
        peak = 0.0
        for kind, microbatch, _ in flat(steps):
            way = ways[microbatch]
            if kind == "F":
                whole[way] += 1
            elif kind == "B":
                whole[way] -= 1
                continue
            elif kind == "I":
                whole[way] -= 1
                split[way] += 1
            else:
                split[way] -= 1
                continue
            if len(shares) == 1:
                held = (whole[0] * until_b + split[0] * until_w) / shares[0]
            else:
                held = sum((whole[way] * until_b + split[way] * until_w) / share for way, share in enumerate(shares))
            if held > peak:
                peak = held
        peaks.append(peak)
    return tuple(peaks)

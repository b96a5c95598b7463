"""The shaped link that this run is on, if it is on one, for predictions. Standard library only."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from labtui.bench import device


@dataclass(frozen=True)
class Link:
    """A link of a known rate (see `labtui run --link`)."""

    rate_bits: float
    """Bits per second: of each rank in each direction, or of all ranks together on a bus."""
    model: str
    """"per_rank" or "bus"."""

    def seconds(self, sent: float, ranks: int) -> float:
        """How long the link takes where each of `ranks` ranks sends `sent` bytes to others, all at the same time.

        With `theory.collectives.all_reduce_bytes` for `sent` that is 2 (N-1)/N * size / rate per rank, and N times as
        long on a bus. Without latency.
        """
        return sent * (ranks if self.model == "bus" else 1) / (self.rate_bits / 8)

    def words(self) -> str:
        """ "1 Gbit/s per rank", as it must stand beside numbers that were measured on it."""
        shared = "shared by all ranks (a bus)" if self.model == "bus" else "per rank"
        return f"{self.rate_bits / 1e9:g} Gbit/s {shared}"


def current() -> Link | None:
    """What labtui says of this run's link ($LABTUI_LINK); None where it is as fast as it is."""
    text = os.environ.get("LABTUI_LINK")
    if not text:
        return None
    try:
        document = json.loads(text)
        return Link(float(document["rate_bits"]), str(document["model"]))
    except (ValueError, TypeError, KeyError):
        device.refuse(f'LABTUI_LINK is {text!r}, {{"rate_bits": ..., "model": ...}} expected')

"""The costs' factors by stage and by micro-batch, for the schedules that look at costs."""

from __future__ import annotations

from labtui.theory.pipeline.costs import Costs


def factors(costs: Costs, stages: int, microbatches: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """By stage and by micro-batch, ones where the costs have none; ValueError where they have another number."""
    by_stage, by_batch = costs.stages or (1.0,) * stages, costs.batches or (1.0,) * microbatches
    for what, given, number in (("stages", by_stage, stages), ("micro-batches", by_batch, microbatches)):
        if len(given) != number:
            raise ValueError(f"the costs have factors for {len(given)} {what}, but there are {number}.")
    return by_stage, by_batch

"""One placement as a model of OR-Tools' CP-SAT. Whoever makes it brings the solver's module.

A model has a start for every action; devices do one thing at a time; what needs what, transfers and memory are as in
`simulate` and `peaks`. Backwards are split where that loses nothing; else the solver chooses for each. Pairs are left
out: one that takes at least F + B is never better than its two actions one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.optimal.grid import Grid, memory
from labtui.theory.pipeline.optimal.placement import Placement
from labtui.theory.pipeline.order import Action, Order
from labtui.theory.pipeline.timeline import Timeline

Key = tuple[str, int, int]
"""Kind (F; I, which may turn out to be a whole B; W), micro-batch, stage."""


@dataclass(frozen=True)
class Task:
    """One placement with its costs, its limit, and an order of it that is known."""

    placement: Placement
    costs: Costs
    limit: float | None
    start: Timeline
    least: float
    """A total that no order of the placement goes below."""
    most: float
    """Only orders with at most this total are wanted; at most the start's. Where it is less, there may be none."""
    link_busy: bool = False
    until_b: float = 1.0
    until_w: float = 1.0


class Model:
    """A task as CP-SAT reads it, on a grid of whole times."""

    def __init__(self, task: Task, cp_model: Any) -> None:
        """`cp_model` is the module ortools.sat.python.cp_model."""
        self.task = task
        self.place, costs = task.placement, task.costs
        m, stages = self.place.microbatches, self.place.stages
        kinds = ("F", "B", "I", "W")
        pieces = [(microbatch, stage) for stage in range(stages) for microbatch in range(m)]
        took = {(kind, *piece): costs.of(kind, *piece) for kind in kinds for piece in pieces}
        self.grid = Grid([*took.values(), costs.comm])
        self.took = {key: self.grid.steps(duration) for key, duration in took.items()}
        self.comm = self.grid.steps(costs.comm)
        # Split is never worse where its parts take no longer than the whole, and need no more memory in between.
        whole_first = costs.weight == 0 and costs.backward <= costs.input
        split_first = costs.backward >= costs.input + costs.weight and task.until_w <= task.until_b
        self.chosen: dict[tuple[int, int], Any] = {}
        """By piece, the solver's variable for a split backward, True or False where it has no choice."""
        self.model = cp_model.CpModel()
        self.horizon = self.grid.at_least(task.most)
        self.starts: dict[Key, Any] = {}
        self.ends: dict[Key, Any] = {}
        self.intervals: list[list[Any]] = [[] for _ in range(self.place.devices)]
        for piece in pieces:
            self.chosen[piece] = False if whole_first else True if split_first else self.model.new_bool_var("")
            self._add_piece(piece)
        self.total = self.model.new_int_var(min(self.grid.at_least(task.least), self.horizon), self.horizon, "total")
        self._need()
        self._one_at_a_time()
        self._in_a_row()
        self._limit_memory()
        self._hint()
        self.model.minimize(self.total)

    # Actions --------------------------------------------------------------------------------------------------------

    def _add_piece(self, piece: tuple[int, int]) -> None:
        model, split = self.model, self.chosen[piece]
        intervals = self.intervals[self.place.route(piece[0])[piece[1]]]
        for kind in "FIW":
            if kind == "W" and split is False:
                continue
            key = (kind, *piece)
            start = self.starts[key] = model.new_int_var(0, self.horizon, "")
            own = self.took[key]
            if kind == "I" and split is not True:
                whole = self.took[("B", *piece)]
                own = whole if split is False else whole + (own - whole) * split
            self.ends[key] = start + own
            if kind == "I" and not isinstance(split, bool):
                intervals += [
                    model.new_optional_fixed_size_interval_var(start, self.took[key], split, ""),
                    model.new_optional_fixed_size_interval_var(start, self.took[("B", *piece)], ~split, ""),
                ]
            elif kind == "W" and not isinstance(split, bool):
                intervals.append(model.new_optional_fixed_size_interval_var(start, own, split, ""))
            else:
                intervals.append(model.new_fixed_size_interval_var(start, own, ""))

    def _need(self) -> None:
        """What each action needs, and that none ends after the total."""
        model, last = self.model, self.place.stages - 1
        carried: dict[tuple[int, int], list[Any]] = {}
        for (kind, microbatch, stage), start in self.starts.items():
            way = self.place.route(microbatch)
            sender: Key | None = None
            if kind == "F" and stage:
                sender = ("F", microbatch, stage - 1)
            elif kind == "I":
                model.add(start >= self.ends["F", microbatch, stage])
                if stage < last:
                    sender = ("I", microbatch, stage + 1)
            elif kind == "W":
                model.add(start >= self.ends["I", microbatch, stage])
            if sender is not None:
                end, link = self.ends[sender], (way[sender[2]], way[stage])
                if link[0] == link[1] or not self.comm:
                    model.add(start >= end)
                elif not self.task.link_busy:
                    model.add(start >= end + self.comm)
                else:
                    # The simulator sends in the order of production. Here any order goes: the bound holds all the same.
                    sent = model.new_int_var(0, self.horizon, "")
                    model.add(sent >= end)
                    model.add(start >= sent + self.comm)
                    carried.setdefault(link, []).append(model.new_fixed_size_interval_var(sent, self.comm, ""))
            ended = model.add(self.total >= self.ends[kind, microbatch, stage])
            split = self.chosen[microbatch, stage]
            if kind == "W" and not isinstance(split, bool):
                ended.only_enforce_if(split)  # what isn't done needn't end
        for intervals in carried.values():
            model.add_no_overlap(intervals)

    def _one_at_a_time(self) -> None:
        for intervals in self.intervals:
            self.model.add_no_overlap(intervals)

    def _in_a_row(self) -> None:
        """Equal micro-batches of one way do each kind of work of a stage in their order, which loses nothing.

        Take any schedule and give the i-th forward in time of each stage to micro-batch i, the same for each other
        kind. The i-th forward of a stage comes after i forwards of the stage before (one for each so far), so after the
        i-th of them; likewise for gradients, and for a backward after its forward. Memory only counts how many.
        """
        if not self._equal:
            return
        for row in self._rows():
            for kind in "FIW":
                keys = [(kind, *piece) for piece in row if (kind, *piece) in self.starts]
                for place, key in enumerate(keys[1:]):
                    if kind != "W" or isinstance(self.chosen[key[1:]], bool):
                        self.model.add(self.starts[key] >= self.ends[keys[place]])

    @property
    def _equal(self) -> bool:
        return len(set(self.task.costs.batches)) <= 1

    def _rows(self) -> list[list[tuple[int, int]]]:
        """The pieces of each stage, by way."""
        rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
        ways = self.place.route_of or (0,) * self.place.microbatches
        for microbatch, stage in self.chosen:
            rows.setdefault((ways[microbatch], stage), []).append((microbatch, stage))
        return list(rows.values())

    def _limit_memory(self) -> None:
        """A piece is held from the start of its F to the end of its W; its size changes where its I starts."""
        limit, until_b, until_w = self.task.limit, self.task.until_b, self.task.until_w
        if limit is None:
            return
        room, before, after = memory(limit, until_b, until_w, self.place.per_device)
        choices = set(map(str, self.chosen.values()))
        one_size = choices == {"False"} or (choices == {"True"} and before == after)
        if self._equal and one_size and self.place.per_device == len(self.place.routes) == 1:
            # All in a row: no forward before the release of the one that leaves room for it.
            count = room // before if before else self.place.microbatches
            for row in self._rows():
                for released, begun in zip(row, row[count:]):  # noqa: B905 - Python 3.9
                    self.model.add(self.starts[("F", *begun)] >= self._released(released))
            return
        spans: list[tuple[list[Any], list[int]]] = [([], []) for _ in range(self.place.devices)]
        for piece, split in self.chosen.items():
            microbatch, stage = piece
            intervals, sizes = spans[self.place.route(microbatch)[stage]]
            begun, turned = self.starts[("F", *piece)], self.starts[("I", *piece)]
            if split is False or before == after:
                intervals.append(self._span(begun, self._released(piece)))
                sizes.append(before)
                continue
            middle = turned
            if split is not True:
                # A whole backward keeps the first size to its end, and nothing after.
                middle = self.model.new_int_var(0, self.horizon, "")
                self.model.add(middle == turned).only_enforce_if(split)
                self.model.add(middle == self.ends[("I", *piece)]).only_enforce_if(~split)
            intervals += [self._span(begun, middle), self._span(middle, self._released(piece))]
            sizes += [before, after]
        for intervals, sizes in spans:
            self.model.add_cumulative(intervals, sizes, room)

    def _released(self, piece: tuple[int, int]) -> Any:
        split = self.chosen[piece]
        if isinstance(split, bool):
            return self.ends[("W" if split else "I", *piece)]
        released = self.model.new_int_var(0, self.horizon, "")
        self.model.add(released == self.ends[("W", *piece)]).only_enforce_if(split)
        self.model.add(released == self.ends[("I", *piece)]).only_enforce_if(~split)
        return released

    def _span(self, begin: Any, end: Any) -> Any:
        size = self.model.new_int_var(0, self.horizon, "")
        finish = self.model.new_int_var(0, self.horizon, "")
        self.model.add(finish == end)
        return self.model.new_interval_var(begin, size, finish, "")

    # The known order, and what comes out ----------------------------------------------------------------------------

    def _hint(self) -> None:
        """The start's times: a solution if its total is wanted, with equal micro-batches renumbered to be in a row."""
        times: dict[Key, int] = {}
        split: dict[tuple[int, int], bool] = {}
        for device in range(self.place.devices):
            for op in self.task.start.ops(device):
                kind = "I" if op.kind == "B" else op.kind
                piece = (op.microbatch, op.stage)
                times[(kind, *piece)] = self.grid.at_least(op.start)
                if kind == "I":
                    split[piece] = op.kind == "I"
                if op.kind == "B" and self.chosen[piece] is True:
                    times[("W", *piece)] = times[("I", *piece)] + self.took[("I", *piece)]
        if self._equal:
            for row in self._rows():
                for kind in "FIW":
                    keys = [(kind, *piece) for piece in row if (kind, *piece) in times]
                    for key, time in zip(keys, sorted(times[key] for key in keys)):  # noqa: B905 - Python 3.9
                        times[key] = time
        for key, time in times.items():
            if key in self.starts:
                self.model.add_hint(self.starts[key], min(time, self.horizon))
        for piece, choice in self.chosen.items():
            if not isinstance(choice, bool):
                self.model.add_hint(choice, split[piece])

    def order(self, value: Callable[[Any], int]) -> Order:
        """The order of the solver's times; `value` reads one of its variables."""
        rank = {"F": 0, "I": 1, "W": 2}
        rows: list[list[tuple[int, int, int, int, Action]]] = [[] for _ in range(self.place.devices)]
        for key, start in self.starts.items():
            kind, microbatch, stage = key
            choice = self.chosen[microbatch, stage]
            split = choice if isinstance(choice, bool) else bool(value(choice))
            if kind == "W" and not split:
                continue
            begin, action = value(start), Action(kind if kind != "I" or split else "B", microbatch, stage)
            # Times of 0 begin and end together: forwards go down the stages, gradients up.
            step = stage if kind == "F" else -stage
            row = rows[self.place.route(microbatch)[stage]]
            row.append((begin, begin + self.took[action.kind, microbatch, stage], rank[kind], step, action))
        return self.place.order("optimal", tuple(tuple(each[-1] for each in sorted(row)) for row in rows))

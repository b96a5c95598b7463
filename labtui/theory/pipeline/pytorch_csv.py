"""PyTorch's CSV of a pipeline schedule, read and written: one line for each rank, one action in each cell.

The two forms of `_PipelineScheduleRuntime._dump_csv` (torch 2.13): "compute_only" has F, B, I, W and pairs, as in
"0F4" (stage, kind, micro-batch) and "(0F4;7B2)OVERLAP_F_B", with empty cells where a rank idles; "compute_comms" has
in addition SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD and REDUCE_GRAD. Text in, text out: opens no file. When
something happens is not in the file: empty cells are dropped, the simulator decides.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from typing import NamedTuple

from labtui.theory.pipeline.order import Action, Actions, Order, OrderError, Pair, Step
from labtui.theory.pipeline.pytorch_comms import SHARDING, TRANSFERS, delivery, lowered
from labtui.theory.pipeline.schedules import LARGEST
from labtui.theory.pipeline.simulate import simulate

ACTION = re.compile(rf"([0-9]{{1,7}})(?:(F|B|I|W|{'|'.join(TRANSFERS)})([0-9]{{1,7}})|({'|'.join(SHARDING)}))")
PAIR = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B")
EXAMPLES = "2F0, 2B0, 1SEND_F3, (0F4;7B2)OVERLAP_F_B"


class _Found(NamedTuple):
    """An action and where it stands, counted from 1 as an editor does; the two of a pair stand in one cell."""

    action: Action
    line: int
    cell: int

    @property
    def place(self) -> str:
        return f"line {self.line}, cell {self.cell}"


Key = tuple[str, int, int]
"""(kind, micro-batch, stage); whole backwards and gradients of inputs are both "B" here."""
Table = dict[Key, _Found]


def read(text: str, name: str = "csv") -> Order:
    """The order in a CSV of either form; which stage lives on which rank follows from the lines.

    Transfers are checked and left out: each must have its other end, be sent after the work whose result it carries and
    received before the work that needs it. FSDP's actions are left out. Raises OrderError, one sentence, for the first
    thing that is wrong: with line and cell where an action is unknown, there twice, or needs another that does not
    exist or comes later; with the cycle of ranks where the order never finishes; with its cause where this is PyTorch's
    display of 1F1B, whose last rank is mislabelled.
    """
    lines = [_found(cells, number) for number, cells in enumerate(_cells(text), 1)]
    work, transfers = _table(lines, "FBIW"), _table(lines, TRANSFERS)
    for number, line in enumerate(lines, 1):
        if not any(one.action.kind in "FBIW" for one in line):
            raise OrderError(f"line {number} has no forward or backward: each line is the work of one rank")
    stages = 1 + max(stage for _, _, stage in work)
    microbatches = 1 + max(microbatch for _, microbatch, _ in work)
    _refuse_mislabelled(work, stages - 1)
    _refuse_incomplete(work, stages, microbatches)
    routes, route_of = _routes(work, stages, microbatches)
    order = Order(name, microbatches, routes, tuple(map(_steps, lines)), route_of)
    if transfers:
        _refuse_lost(order, work, transfers)
    simulate(order)  # judges what can't be run, and is far quicker than judging what can
    return order


def write(order: Order, comms: bool = False) -> str:
    """The order as PyTorch's CSV: "compute_only", or with `comms` "compute_comms", lowered as torch 2.13 does it.

    PyTorch loads what has each stage on one rank: DualPipeV, but not DualPipe. Raises OrderError where `comms` is asked
    for and the order never finishes.
    """
    lines = lowered(order) if comms else order.devices
    return "".join(",".join(map(_text, line)) + "\n" for line in lines)


def _text(step: Step) -> str:
    if isinstance(step, Pair):
        return f"({_text(step.forward)};{_text(step.backward)})OVERLAP_F_B"
    return f"{step.stage}{step.kind}{'' if step.kind in SHARDING else step.microbatch}"


def _cells(text: str) -> list[list[str]]:
    if text.count(",") > 3 * LARGEST:
        raise OrderError(f"the CSV has {text.count(',') + 1:,} cells, more than a schedule of {LARGEST:,} operations")
    try:
        lines = [
            [cell.strip() for cell in cells]
            for cells in csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
        ]
    except csv.Error as error:
        raise OrderError(f"this is no CSV of a schedule: {error}") from None
    while lines and not any(lines[-1]):
        lines.pop()
    if not lines:
        raise OrderError("the CSV is empty: each line should be the work of one rank, as in 0F0,0F1,0B0,0B1")
    return lines


def _found(cells: list[str], line: int) -> list[_Found]:
    """The actions of a line; a pair is its forward and then its backward."""
    found = []
    for number, cell in enumerate(cells, 1):
        pair = PAIR.fullmatch(cell)
        if pair:
            actions = sorted((_action(part, cell, line, number) for part in pair.groups()), key=lambda a: a.kind != "F")
            if actions[0].kind != "F" or actions[1].kind not in ("B", "I"):
                raise OrderError(f"line {line}, cell {number}: {_shown(cell)} should join a forward and a backward")
            found += [_Found(action, line, number) for action in actions]
        elif cell:
            found.append(_Found(_action(cell, cell, line, number), line, number))
    return found


def _action(part: str, cell: str, line: int, number: int) -> Action:
    match = ACTION.fullmatch(part.strip())
    if match is None:
        raise OrderError(f"line {line}, cell {number}: {_shown(cell)} is no action of PyTorch's (as in {EXAMPLES})")
    stage, kind, microbatch, sharding = match.groups()
    return Action(sharding or kind, int(microbatch or 0), int(stage))


def _shown(cell: str) -> str:
    return ascii(cell if len(cell) <= 40 else cell[:37] + "...")


def _table(lines: list[list[_Found]], kinds: str | tuple[str, ...]) -> Table:
    """The actions of these kinds; refuses what is there twice."""
    table: Table = {}
    for line in lines:
        for one in line:
            kind, microbatch, stage = one.action
            if kind in kinds:
                first = table.setdefault(("B" if kind == "I" else kind, microbatch, stage), one)
                if first is not one:
                    same = "there already" if first.action == one.action else f"already in {_text(first.action)}"
                    raise OrderError(f"{one.place}: {_text(one.action)} is {same} ({first.place})")
    return table


def _refuse_mislabelled(work: Table, last: int) -> None:
    """PyTorch's display of 1F1B numbers the last stage's forwards 1 to m; what they wait for does not exist."""
    forwards = {microbatch for kind, microbatch, stage in work if kind == "F" and stage == last}
    m = len(forwards)
    backwards = {microbatch for kind, microbatch, stage in work if kind == "B" and stage == last}
    if m and forwards == set(range(1, m + 1)) and backwards == set(range(m)) and ("F", m, last - 1) not in work:
        waits = f"{last}F{m} waits for {last - 1}F{m}, which does not exist" if last else f"0F{m} does not exist"
        raise OrderError(
            f"{work['F', m, last].place}: {waits}, and {last}F0 is missing: PyTorch's display of 1F1B has this fault, "
            f"it labels the last stage's forwards 1 to {m}, not 0 to {m - 1} (write each {last}F(k+1) as {last}Fk)"
        )


def _refuse_incomplete(work: Table, stages: int, microbatches: int) -> None:
    """Every micro-batch goes through every stage forwards and then backwards, on one line."""
    # No more than is there is looked at: a lone 9999999F9999999 is refused at the first gap.
    for microbatch in range(microbatches):
        for stage in range(stages):
            forward, backward, weight = (work.get((kind, microbatch, stage)) for kind in "FBW")
            if forward is None:
                witness = backward or weight
                if witness:
                    raise _missing(witness, f"{stage}F{microbatch}")
                raise OrderError(
                    f"there is no {stage}F{microbatch}, but {_largest(work)}: stages and micro-batches count from 0"
                )
            if backward is None:
                if weight:
                    raise _missing(weight, f"{stage}I{microbatch}")
                raise OrderError(f"{forward.place}: {_text(forward.action)} has no backward ({stage}B{microbatch})")
            _refuse_before(backward, forward)
            if backward.action.kind == "I":
                if weight is None:
                    raise OrderError(f"{backward.place}: {_text(backward.action)} has no {stage}W{microbatch}")
                _refuse_before(weight, backward)
            elif weight:
                raise OrderError(
                    f"{weight.place}: {_text(weight.action)} is a part of {_text(backward.action)} ({backward.place})"
                )


def _missing(witness: _Found, needed: str) -> OrderError:
    return OrderError(f"{witness.place}: {_text(witness.action)} needs {needed}, which does not exist")


def _largest(work: Table) -> str:
    """The highest stage and the highest micro-batch that there are."""
    stage = max(work.values(), key=lambda one: one.action.stage)
    microbatch = max(work.values(), key=lambda one: one.action.microbatch)
    ends = {f"{_text(one.action)} ({one.place})": None for one in (stage, microbatch)}
    return " and ".join(ends)


def _refuse_before(later: _Found, earlier: _Found) -> None:
    if later.line != earlier.line:
        raise OrderError(
            f"{later.place}: {_text(later.action)} is on another line than {_text(earlier.action)} ({earlier.place}), "
            "but a stage lives on one rank"
        )
    if later.cell <= earlier.cell:
        where = "comes later" if later.cell < earlier.cell else "is in the same pair"
        raise OrderError(f"{later.place}: {_text(later.action)} needs {_text(earlier.action)}, which {where}")


def _routes(work: Table, stages: int, microbatches: int) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The ways through the ranks, and which of them each micro-batch goes."""
    ways: dict[tuple[int, ...], int] = {}
    way_of = []
    for microbatch in range(microbatches):
        way = tuple(work["F", microbatch, stage].line - 1 for stage in range(stages))
        first = next(iter(ways), way)
        if way not in ways and way not in (first, first[::-1]):
            stage = next(stage for stage in range(stages) if way[stage] != first[stage])
            raise OrderError(
                f"{work['F', microbatch, stage].place}: stage {stage} is on line {first[stage] + 1} for micro-batch 0, "
                "and a stage lives on one rank (or, where half of the micro-batches go the other way, on two)"
            )
        way_of.append(ways.setdefault(way, len(ways)))
    return tuple(ways), tuple(way_of) if len(ways) > 1 else ()


def _steps(line: list[_Found]) -> Actions:
    """The work of a line, without transfers."""
    cells: defaultdict[int, list[Action]] = defaultdict(list)
    for one in line:
        if one.action.kind in "FBIW":
            cells[one.cell].append(one.action)
    return tuple(Pair(*actions) if len(actions) == 2 else actions[0] for actions in cells.values())


def _refuse_lost(order: Order, work: Table, transfers: Table) -> None:
    """Each result that another rank needs is sent and received once, and nothing else is."""
    matched: set[Action] = set()
    for maker in work.values():
        carried = delivery(order, maker.action)
        if carried is None:
            continue
        send, receive = carried
        user = work["F" if maker.action.kind == "F" else "B", receive.microbatch, receive.stage]
        for end in carried:
            if end not in transfers:
                raise _missing(user, _text(end))
        sent, received = transfers[send], transfers[receive]
        for transfer, at in ((sent, maker), (received, user)):
            if transfer.line != at.line:
                raise OrderError(f"{transfer.place}: {_text(transfer.action)} belongs on line {at.line}")
        _refuse_before(sent, maker)
        _refuse_before(user, received)
        matched.update(carried)
    for key, one in transfers.items():
        if key not in matched:
            raise OrderError(f"{one.place}: {_text(one.action)} carries nothing from one rank to another")

"""The learner's own schedule, made an order and judged. Pure: the lists are given, whoever made them.

The form is that of the lesson's exercise: a list for each device, with ("F", i) for the forward and ("B", i) for the
backward of micro-batch i, in the order in which the device does them; device s has stage s. Beyond the exercise a
backward may be split into ("I", i) and ("W", i).
"""

from __future__ import annotations

from labtui.theory.pipeline.judge import judge
from labtui.theory.pipeline.order import KINDS, Action, Actions, Order, OrderError
from labtui.theory.pipeline.schedules import refuse_large

LONGEST = 40
"""Characters of a wrong value in a sentence."""


def from_lists(lists: object, devices: int, microbatches: int, name: str = "yours") -> Order:
    """The order in `lists` for p = `devices` and m = `microbatches`.

    Raises OrderError, one sentence, where it is none: another number of devices, something that is no operation, an
    operation that is missing or there twice, a dependency that comes later, a deadlock (which names the cycle).
    """
    refuse_sizes(devices, microbatches)
    if not isinstance(lists, (list, tuple)):
        raise OrderError(f"a list for each of the {devices} devices is expected, not {_kind(lists)}")
    if len(lists) != devices:
        raise OrderError(f"a list for each of the {devices} devices is expected, not {_count(len(lists))}")
    rows = tuple(_row(row, microbatches, device) for device, row in enumerate(lists))
    order = Order(name, microbatches, (tuple(range(devices)),), rows)
    judge(order)
    return order


def refuse_sizes(devices: int, microbatches: int) -> None:
    """OrderError where no schedule has these sizes."""
    if devices < 1 or microbatches < 1:
        raise OrderError(f"a pipeline has at least 1 device and 1 micro-batch, not p={devices} and m={microbatches}")
    refuse_large(devices, microbatches, len("FB"))


def _row(row: object, microbatches: int, device: int) -> Actions:
    if not isinstance(row, (list, tuple)):
        raise OrderError(f'device {device}: a list of operations like ("F", 0) is expected, not {_kind(row)}')
    return tuple(_action(operation, microbatches, device, number) for number, operation in enumerate(row, 1))


def _action(operation: object, microbatches: int, device: int, number: int) -> Action:
    place = f"device {device}, operation {number}"
    if not isinstance(operation, (list, tuple)) or len(operation) != 2:
        raise OrderError(f'{place}: a pair like ("F", 0) is expected, not {_shown(operation)}')
    kind, microbatch = operation
    if kind not in KINDS:
        raise OrderError(f"{place}: {_shown(kind)} is no kind of work: F, B, or I and W for the halves of B")
    if not isinstance(microbatch, int) or isinstance(microbatch, bool):
        raise OrderError(f"{place}: {_shown(microbatch)} is no number of a micro-batch")
    if not 0 <= microbatch < microbatches:
        raise OrderError(f"{place}: there is no micro-batch {_shown(microbatch)}, only 0 to {microbatches - 1}")
    return Action(kind, microbatch, device)


def _count(lists: int) -> str:
    return "1 list" if lists == 1 else f"{lists} lists"


def _kind(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple, dict)) and len(value) > 3:
        return f"{_kind(value)} of {len(value)}"
    try:
        text = ascii(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a list in a list in a list
        return f"({_kind(value)})"
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."

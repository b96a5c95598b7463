"""PyTorch's CSV, both ways: torch's own orders, every schedule of ours, and whatever else a file may hold."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labtui.theory.pipeline.costs import Costs
from labtui.theory.pipeline.order import Order, OrderError
from labtui.theory.pipeline.pytorch_csv import read, write
from labtui.theory.pipeline.schedules import SCHEDULES, build
from labtui.theory.pipeline.simulate import simulate

PYTORCH = json.loads((Path(__file__).parents[2] / "data/pipeline/pytorch_orders.json").read_text())
CASES = {f"{case['schedule']}-{case['p']}-{case['m']}-{case['v']}": case for case in PYTORCH["cases"]}
MISLABELLED = "1F1B-4-8-1"


def text(rows: list[str]) -> str:
    return "".join(row.replace(" ", ",") + "\n" for row in rows)


def refusal(csv: str) -> str:
    with pytest.raises(OrderError) as raised:
        read(csv)
    return str(raised.value)


@pytest.mark.parametrize("name", [name for name in CASES if name != MISLABELLED])
def test_pytorchs_orders_are_read_run_and_written_back(name):
    case = CASES[name]
    order = read(text(case["rows"]))
    assert (len(order.devices), order.microbatches, order.stages) == (case["p"], case["m"], case["p"] * case["v"])
    run = simulate(order, Costs(1.0, backward=2.0))
    assert (run.total, list(run.peak_in_flight)) == (case["total"], case["peaks"])
    assert write(order) == text(case["rows"])
    assert read(write(order, comms=True)) == order


def test_pytorchs_display_of_1f1b_is_refused_with_its_fault():
    rows = CASES[MISLABELLED]["rows"]
    assert refusal(text(rows)) == (
        "line 4, cell 15: 3F8 waits for 2F8, which does not exist, and 3F0 is missing: PyTorch's display of 1F1B has "
        "this fault, it labels the last stage's forwards 1 to 8, not 0 to 7 (write each 3F(k+1) as 3Fk)"
    )
    # And what the sentence says is what helps.
    for k in range(8):
        rows = [*rows[:3], rows[3].replace(f"3F{k + 1}", f"3F{k}")]
    order = read(text(rows))
    assert order.devices == build("1f1b", 4, 8).devices
    assert simulate(order, Costs(1.0, backward=2.0)).total == 33


def test_transfers_published_with_an_order_are_checked_and_left_out():
    order = read("\n".join(PYTORCH["comms"]))
    assert write(order) == text(CASES["Interleaved1F1B-2-4-2"]["rows"])


def test_transfers_and_shards_as_pytorch_adds_them():
    """1F1B with p=2, m=2, lowered by torch 2.13: the receive is there as soon as its send is."""
    assert write(build("1f1b", 2, 2), comms=True).splitlines() == [
        "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD",
        "1UNSHARD,1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD",
    ]


def test_what_spreadsheets_do_to_a_file_is_no_fault():
    """A byte order mark, quotes, spaces, line ends of two characters, empty cells and lines at the ends."""
    order = build("1f1b", 2, 2)
    rows = [['"' + cell + '" ' for cell in row.split(",")] + ["", ""] for row in write(order).splitlines()]
    assert read("\ufeff" + "".join(",".join(row) + "\r\n" for row in rows) + ",,\r\n\r\n", "1f1b") == order


TORCH = """
import json, sys
from torch.distributed.pipelining import schedules
for path, devices, stages, microbatches in json.load(sys.stdin):
    def runtime():
        made = object.__new__(schedules._PipelineScheduleRuntime)  # its __init__ wants process groups
        made.pipeline_order, made.pp_group_size, made._num_stages = {}, devices, stages
        made._n_microbatches, made._stages, made._defer_pp_recv = microbatches, [], False
        return made
    lowered, given = runtime(), runtime()
    lowered._load_csv(path + ".compute_only.csv", format="compute_only")
    given._load_csv(path + ".compute_comms.csv", format="compute_comms")
    theirs, ours = lowered.pipeline_order_with_comms, given.pipeline_order_with_comms
    print(json.dumps([[list(map(str, order[rank])) for rank in sorted(order)] for order in (theirs, ours)]))
"""


@pytest.mark.slow
def test_torch_loads_what_we_write_and_lowers_it_to_the_same(tmp_path):
    orders = [build(name, 4, 8) for name in SCHEDULES if name not in ("dualpipe", "optimal")]
    orders.append(build("interleaved-1f1b", 3, 6, 5))  # more stages on a rank than FSDP keeps whole
    asked = []
    for number, order in enumerate(orders):
        for form in ("compute_only", "compute_comms"):
            (tmp_path / f"{number}.{form}.csv").write_text(write(order, form == "compute_comms"))
        asked.append((str(tmp_path / str(number)), len(order.devices), order.stages, order.microbatches))
    done = subprocess.run([sys.executable, "-c", TORCH], input=json.dumps(asked), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(orders)
    for order, (theirs, ours) in zip(orders, answers, strict=True):
        assert theirs == ours, order.name
        assert read("\n".join(map(",".join, theirs)), order.name) == order


SIZES = st.tuples(st.sampled_from(sorted(set(SCHEDULES) - {"optimal"})), st.integers(1, 5), st.integers(1, 12))


@given(SIZES, st.booleans())
@settings(max_examples=60, deadline=None)
@example(("dualpipe", 4, 8), True)
@example(("dualpipev", 3, 8), True)
def test_every_order_comes_back(sizes, comms):
    name, p, m = sizes
    try:
        order = build(name, p, m)
    except OrderError:
        return  # sizes that this schedule forbids
    back = read(write(order, comms), order.name)
    assert back.devices == order.devices
    assert [back.device_of(i, s) for i in range(m) for s in range(back.stages)] == [
        order.device_of(i, s) for i in range(m) for s in range(order.stages)
    ]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_file_with_one_cell_changed_is_an_order_or_gets_a_sentence(data):
    """And if it is still an order, it runs."""
    rows = [row.split(",") for row in write(build("zb-h1", 3, 4), comms=data.draw(st.booleans())).splitlines()]
    line = data.draw(st.integers(0, len(rows) - 1))
    cell = data.draw(st.integers(0, len(rows[line]) - 1))
    other = data.draw(
        st.sampled_from([cell for row in rows for cell in row] + ["", "0B0", "9F9", "(1F1;1I0)OVERLAP_F_B"])
    )
    what = data.draw(st.sampled_from(["put", "insert", "delete"]))
    if what == "put":
        rows[line][cell] = other
    elif what == "insert":
        rows[line].insert(cell, other)
    else:
        del rows[line][cell]
    try:
        order = read("\n".join(map(",".join, rows)))
    except OrderError as error:
        assert "\n" not in str(error) and str(error).isascii()
        return
    assert simulate(order).total >= simulate(order).ideal


PIECES = st.sampled_from(
    ["0F0", "0B0", "0I0", "0W0", "1F0", "(0F0;0B0)OVERLAP_F_B", "0SEND_F0", ",", "\n", '"', "\r", "\0"]
)


@given(st.one_of(st.binary(max_size=300).map(lambda raw: raw.decode(errors="replace")), st.lists(PIECES).map("".join)))
@settings(max_examples=200, deadline=None)
def test_whatever_a_file_holds_it_gets_one_sentence(content):
    try:
        order = read(content)
    except OrderError as error:
        assert len(str(error).splitlines()) == 1 and len(str(error)) < 400
    else:
        assert isinstance(order, Order)


def test_a_few_digits_do_not_cost_memory():
    tracemalloc.start()
    assert "there is no 0F0" in refusal("9999999F9999999,9999999B9999999\n")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("csv", "sentence"),
    [
        ("", "the CSV is empty: each line should be the work of one rank, as in 0F0,0F1,0B0,0B1"),
        ("0F0,0B0\n\n1F0,1B0", "line 2 has no forward or backward: each line is the work of one rank"),
        (
            "0F0,0X0",
            "line 1, cell 2: '0X0' is no action of PyTorch's (as in 2F0, 2B0, 1SEND_F3, (0F4;7B2)OVERLAP_F_B)",
        ),
        ("0F0,0F0", "line 1, cell 2: 0F0 is there already (line 1, cell 1)"),
        ("0F0,0B0,0I0", "line 1, cell 3: 0I0 is already in 0B0 (line 1, cell 2)"),
        ("0F0", "line 1, cell 1: 0F0 has no backward (0B0)"),
        ("0F0,0I0", "line 1, cell 2: 0I0 has no 0W0"),
        ("0F0,0W0", "line 1, cell 2: 0W0 needs 0I0, which does not exist"),
        ("0F0,0B0,0W0", "line 1, cell 3: 0W0 is a part of 0B0 (line 1, cell 2)"),
        ("0F0,0W0,0I0", "line 1, cell 2: 0W0 needs 0I0, which comes later"),
        ("0B0,0F0", "line 1, cell 1: 0B0 needs 0F0, which comes later"),
        ("0F0,0B0,0B1", "line 1, cell 3: 0B1 needs 0F1, which does not exist"),
        ("(0F0;0B0)OVERLAP_F_B", "line 1, cell 1: 0B0 needs 0F0, which is in the same pair"),
        ("(0F0;1F0)OVERLAP_F_B", "line 1, cell 1: '(0F0;1F0)OVERLAP_F_B' should join a forward and a backward"),
        (
            "0F0,2F0,2B0,0B0",
            "there is no 1F0, but 2F0 (line 1, cell 2) and 0F0 (line 1, cell 1): stages and micro-batches count from 0",
        ),
        ("0F0\n0B0", "line 2, cell 1: 0B0 is on another line than 0F0 (line 1, cell 1), but a stage lives on one rank"),
        (
            "0F0,0B0\n0F1,0B1",
            "line 2, cell 1: stage 0 is on line 1 for micro-batch 0, and a stage lives on one rank (or, where half of "
            "the micro-batches go the other way, on two)",
        ),
        (
            "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0",
            "the order never finishes: device 0 waits with B0 of stage 0 for B0 of stage 1 on device 1, which waits "
            "with F1 of stage 1 for F1 of stage 0 on device 0",
        ),
        ("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0", "line 1, cell 4: 0B0 needs 1SEND_B0, which does not exist"),
        (
            "0F0,0SEND_F0,0B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0",
            "line 1, cell 3: 0B0 needs 0RECV_B0, which comes later",
        ),
        (
            "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_B0,1B0",
            "line 2, cell 3: 1SEND_B0 needs 1B0, which comes later",
        ),
        (
            "0F0,1RECV_F0,0RECV_B0,0B0\n0SEND_F0,1F0,1B0,1SEND_B0",
            "line 2, cell 1: 0SEND_F0 belongs on line 1",
        ),
        (
            "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1SEND_F0",
            "line 2, cell 5: 1SEND_F0 carries nothing from one rank to another",
        ),
    ],
)  # fmt: skip
def test_each_fault_has_its_sentence_and_place(csv, sentence):
    assert refusal(csv) == sentence


def test_an_order_that_never_finishes_can_not_be_lowered():
    order = build("1f1b", 2, 2)
    stuck = Order("stuck", 2, order.routes, (order.devices[0], order.devices[1][::-1]))
    with pytest.raises(OrderError, match="B1 of stage 1 before its F"):
        write(stuck, comms=True)

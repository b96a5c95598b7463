"""labtui simulate: the lesson's figures, every option, and what can't be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labtui.cli import simulate

LESSON = """\
      0    5    10   15   20   25   30
GPU0 |0123......aa4bb5cc6dd7ee.ff.gg.hh|
GPU1 |.012....aa3bb4cc5dd6ee7ff.gg.hh..|
GPU2 |..01..aa2bb3cc4dd5ee6ff7gg.hh....|
GPU3 |...0aa1bb2cc3dd4ee5ff6gg7hh......|
"""


# One schedule -------------------------------------------------------------------------------------------------------


def test_the_lessons_1f1b_for_people(labtui: Any) -> None:
    out = labtui("simulate", "1f1b").out
    assert LESSON in out
    assert "total          33   (ideal, if no device ever waited: 24)" in out
    assert "27.3 % of the total, 37.5 % over the ideal" in out
    assert "16 transfers between devices (hops)" in out
    assert "GPU0      24     9          4       4  4 to 10 for B0 from GPU1" in out
    assert "idle (p-1)(F+B), total 33: as simulated" in out
    assert "0-7 forward   a-h backward   . idle   (1 column = 1 unit)" in out
    assert max(map(len, out.splitlines())) < 80


def test_the_document(labtui: Any) -> None:
    told = labtui("simulate", "gpipe", "-p", "4", "-m", "8", "--json").json
    assert (told["schedule"], told["microbatches"], told["virtual_stages"]) == ("gpipe", 8, 4)
    assert {"F": 1, "I": 1, "W": 1, "B": 2, "comm": 0}.items() <= told["costs"].items()
    assert (told["total"], told["bubble"], told["bubble_over_ideal"]) == (33, pytest.approx(3 / 11), 0.375)
    assert told["peak_in_flight"] == told["peak_memory"] == [8, 8, 8, 8]
    assert told["gantt"][0] == "01234567.........aabbccddeeffgghh"
    first = {"kind": "F", "microbatch": 0, "stage": 1, "start": 1, "end": 2}
    assert told["devices"][1][0] == first and len(told["devices"][1]) == 16


def test_an_overlapped_pair_has_one_number_and_one_time(labtui: Any) -> None:
    told = labtui("simulate", "dualpipe", "-p", "4", "-m", "8", "--json").json
    pairs: dict[int, list[dict[str, Any]]] = {}
    for op in (op for device in told["devices"] for op in device if "pair" in op):
        pairs.setdefault(op["pair"], []).append(op)
    assert pairs and told["virtual_stages"] == 4
    for one, other in pairs.values():
        assert (one["kind"], other["kind"]) == ("F", "B")
        assert (one["start"], one["end"]) == (other["start"], other["end"])


def test_a_formula_that_differs_says_why(labtui: Any) -> None:
    out = labtui("simulate", "1f1b", "--comm", "0.5").out
    assert "total 33, but simulated 41: transfers take 0.5" in out.replace("\n               ", " ")
    told = labtui("simulate", "1f1b", "--comm", "0.5", "--json").json["formula"]
    assert (told["expected"], told["simulated"]) == (33, 41) and "transfers" in told["why"][0]


def test_costs_by_kind_stage_and_micro_batch(labtui: Any) -> None:
    def total(*options: str) -> float:
        return labtui("simulate", "gpipe", "-p", "2", "-m", "2", "--json", *options).json["total"]

    assert total() == 9 and total("--cost", "F=2,B=4") == 18
    assert total("--stage-cost", "1=2") == 1 + 4 + 8 + 2  # GPU1 takes twice as long
    assert total("--microbatch-cost", "0=2,1=2") == 18
    assert total("--comm", "1") == 11
    assert total("--comm", "3", "--link-busy") > total("--comm", "3")


def test_costs_of_a_whole_device(labtui: Any) -> None:
    """The same model cut into two stages per device: half the cost each, so that totals compare."""
    plain, chunks = labtui("simulate", "1f1b", "interleaved-1f1b", "--cost-of", "device", "--json").json
    assert plain["ideal"] == chunks["ideal"] == 24
    assert (plain["total"], chunks["total"], chunks["costs"]["F"]) == (33, 28.5, 0.5)


def test_sizes_of_activations(labtui: Any) -> None:
    """Zero Bubble section 2.3: worker i of ZB-H1 holds (p-i+1) M_B + (i-1) M_W, for i from 1."""
    told = labtui("simulate", "zb-h1", "-m", "12", "--activations", "B=1,W=0.5", "--json").json
    assert told["peak_memory"] == [4, 3.5, 3, 2.5]


# The Gantt's size and colour ----------------------------------------------------------------------------------------


def test_a_long_schedule_is_scaled_and_says_so(labtui: Any) -> None:
    out = labtui("simulate", "1f1b", "-m", "64", "--width", "80").out
    assert "times rounded to columns" in out and max(map(len, out.splitlines())) <= 80
    whole = labtui("simulate", "1f1b", "-m", "64", "--width", "0").out
    assert "1 column = 1 unit" in whole and max(map(len, whole.splitlines())) == 3 * 67 + len("GPU0 ||")


def test_stages_of_a_device_have_rows_of_their_own(labtui: Any) -> None:
    out = labtui("simulate", "interleaved-1f1b", "-p", "2", "-m", "2").out
    labels = [line.partition("|")[0] for line in out.splitlines() if "|" in line]
    assert labels == ["GPU0 s0 ", "     s2 ", "GPU1 s1 ", "     s3 "] and "blank: it works" in out
    one = labtui("simulate", "interleaved-1f1b", "-p", "2", "-m", "2", "--rows", "device").out
    assert [line.partition("|")[0] for line in one.splitlines() if "|" in line] == ["GPU0 ", "GPU1 "]


def test_colours_say_nothing_that_letters_do_not(labtui: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    monkeypatch.setenv("TERM", "xterm-256color")
    plain, coloured = (labtui("simulate", "zb-h1", "--color", when).out for when in ("never", "always"))
    assert "\x1b[" not in plain and "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert "\x1b" not in labtui("simulate", "zb-h1").out  # no terminal


# Several ------------------------------------------------------------------------------------------------------------


def test_several_are_drawn_on_one_scale_and_compared(labtui: Any) -> None:
    out = labtui("simulate", "gpipe", "1f1b", "--comm", "0.5").out
    assert out.count("GPU3 |") == 2 and "2 columns = 1 unit" in out
    rows = [line.split() for line in out.splitlines() if line.startswith(("gpipe  ", "1f1b  "))]
    assert ["gpipe", "4", "36", "33.3", "%", "50.0", "%", "33.3", "%", "8", "8", "6"] in rows
    assert ["1f1b", "4", "41", "41.5", "%", "70.8", "%", "41.5", "%", "4", "4", "16"] in rows
    assert [told["total"] for told in labtui("simulate", "gpipe", "1f1b", "--comm", "0.5", "--json").json] == [36, 41]


def test_all_leaves_out_what_these_sizes_do_not_allow(labtui: Any) -> None:
    done = labtui("simulate", "all", "-p", "3", "-m", "8", "--no-gantt")
    assert done.code == 0 and "\n1f1b " in done.out and "\ndualpipe " not in done.out
    assert "dualpipe needs an even number of devices, not 3" in done.err
    assert "GPU0" not in done.out


def test_a_sweep(labtui: Any) -> None:
    told = labtui("simulate", "gpipe", "dualpipe", "--sweep", "m=4..64:4", "--json").json
    assert told["sweep"] == "m" and told["values"] == list(range(4, 65, 4))
    gpipe, dualpipe = told["schedules"]
    assert gpipe["points"][0] == {"m": 4, "total": 21, "bubble": pytest.approx(3 / 7), "bubble_over_ideal": 0.75,
                                  "peak_in_flight": 4, "peak_memory": 4}  # fmt: skip
    assert [left["m"] for left in dualpipe["left_out"]] == [4] and "at least 8" in dualpipe["left_out"][0]["reason"]
    limits = labtui("simulate", "zb-1p", "--sweep", "memory-limit=1..4", "--json").json
    assert limits["values"][:3] == [1, 1.2, 1.4] and limits["schedules"][0]["points"][0]["peak_memory"] == 1
    out = labtui("simulate", "gpipe", "1f1b", "--sweep", "comm=0..2:0.5").out
    assert "a gpipe   b 1f1b" in out and "comm" in out and "63.1 %" in out


def test_deepseeks_table_2(labtui: Any) -> None:
    out = labtui("simulate", "--table2", "-p", "8").out
    rows = [line.split() for line in out.splitlines()]
    assert ["1F1B", "8", "(PP-1)(F+B)", "21", "21", "1x", "8"] in rows
    assert ["DualPipe", "8", "(PP/2-1)(F&B+B-3W)", "6", "6", "2x", "9"] in rows
    told = labtui("simulate", "--table2", "-p", "8", "--json").json
    assert [row["bubble"] for row in told["table2"]] == [row["simulated"] for row in told["table2"]] == [21, 7, 6, 6]
    out = labtui("simulate", "--table2", "-p", "16", "--cost", "F=1,B=2.2,FB=2.8").out
    assert "DualPipe: the order is made for F = I = W" in out and max(map(len, out.splitlines())) < 80


def test_dualpipes_four_slots(labtui: Any) -> None:
    out = labtui("simulate", "--overlap").out
    assert "slot 4" in out and "dispatch" in out and max(map(len, out.splitlines())) < 80
    slots = labtui("simulate", "--overlap", "--json").json["overlap"]
    assert slots[0] == {
        "computes": {"name": "MLP", "way": "backward"}, "travels": {"name": "dispatch", "way": "forward"},
    }  # fmt: skip


# Files --------------------------------------------------------------------------------------------------------------


def test_an_order_goes_to_pytorchs_csv_and_back(labtui: Any, tmp_path: Path) -> None:
    file = tmp_path / "order.csv"
    there = labtui("simulate", "interleaved-1f1b", "--to-csv", str(file), "--json").json
    back = labtui("simulate", "--from", str(file), "--json").json
    assert back["schedule"] == "order.csv" and back["devices"] == there["devices"] and back["gantt"] == there["gantt"]
    comms = labtui("simulate", "1f1b", "-p", "2", "-m", "2", "--to-csv", "-", "--csv-form", "compute_comms").out
    assert "0SEND_F0" in comms and "GPU" not in comms


def test_a_csv_beside_a_known_schedule_has_its_sizes(labtui: Any, tmp_path: Path) -> None:
    file = tmp_path / "order.csv"
    labtui("simulate", "gpipe", "-p", "2", "-m", "3", "--to-csv", str(file))
    own, known = labtui("simulate", "1f1b", "--from", str(file), "--json").json
    assert (own["schedule"], known["schedule"]) == ("order.csv", "1f1b")
    assert own["microbatches"] == known["microbatches"] == 3 and len(known["devices"]) == 2


SCHEDULE = """
def schedule(p, m):
    return [[("F", i) for i in range(m)] + [("B", i) for i in {order}] for s in range(p)]
"""


def test_the_learners_own_beside_the_known_ones(labtui: Any, tmp_path: Path) -> None:
    file = tmp_path / "my.py"
    file.write_text(SCHEDULE.format(order="range(m)"))
    out = labtui("simulate", "--from", str(file)).out
    assert [line.split()[0] for line in out.splitlines() if " p 4  m 8 " in line] == ["my.py", "gpipe", "1f1b"]
    assert "it is the order of gpipe" in " ".join(out.split())
    assert labtui("simulate", "--from", str(file), "-p", "2", "--json").json["total"] == 27


@pytest.mark.parametrize(
    ("order", "words"), [("range(m - 1)", "no backward"), ("range(1, m + 1)", "no micro-batch 8"), ("x", "NameError")]
)
def test_a_learners_schedule_that_is_none(labtui: Any, tmp_path: Path, order: str, words: str) -> None:
    file = tmp_path / "my.py"
    file.write_text(SCHEDULE.format(order=order))
    sentence = labtui("simulate", "--from", str(file)).sentence
    assert sentence.startswith("my.py") and words in sentence


def test_a_trace_for_perfetto(labtui: Any, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    done = labtui("simulate", "1f1b", "--perfetto", str(file), "--no-gantt")
    assert "ui.perfetto.dev" in done.err
    events = json.loads(file.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == 64


# What can't be ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["1f2b"], "there is no schedule '1f2b', the closest is 1f1b"),
        ([], "simulate needs a schedule"),
        (["gpipe", "-p", "0"], "at least 1 device"),
        (["gpipe", "-m", "-1"], "at least 1 micro-batch"),
        (["gpipe", "-v", "2"], "gpipe has 1 stage per device"),
        (["dualpipe", "-p", "3"], "even number of devices, not 3"),
        (["dualpipe", "-p", "8", "-m", "8"], "at least 16 micro-batches, not 8"),
        (["gpipe", "--cost", "F=-1"], "F=-1"),
        (["gpipe", "--cost", "X=1"], "X=1"),
        (["gpipe", "--cost", "F=nan"], "F=nan"),
        (["gpipe", "--comm", "-1"], "comm=-1"),
        (["gpipe", "--stage-cost", "4=2"], "--stage-cost names 4, but the stages are 0 to 3"),
        (["gpipe", "--stage-cost", "x"], "--stage-cost 'x' isn't understood"),
        (["gpipe", "--microbatch-cost", "0=-2"], "factor of micro-batch 0"),
        (["gpipe", "--activations", "B=-1"], "--activations 'B=-1' isn't understood"),
        (["gpipe", "--memory-limit", "3"], "holds 8 micro-batches"),
        (["gpipe", "--memory-limit", "0"], "memory limit is above 0"),
        (["1f1b", "-p", "1024", "-m", "100000"], "204,800,000 operations, more than 5,000,000"),
        (["1f1b", "-p", "100000000", "--stage-cost", "1=2"], "more than 5,000,000"),
        (["gpipe", "--width", "10"], "--width 10 leaves no room"),
        (["gpipe", "--sweep", "x=1..2"], "--sweep x=1..2 isn't understood"),
        (["gpipe", "--sweep", "m=1..z"], "whole numbers"),
        (["gpipe", "--sweep", "m=8..4"], "holds no value"),
        (["gpipe", "--sweep", "m=0..0"], "can't be made at any of these values"),
        (["gpipe", "--sweep", "m=1..1000000:100"], "give it a larger step"),
        (["--sweep", "m=1..2"], "--sweep needs a schedule"),
        (["gpipe", "1f1b", "--to-csv", "x.csv"], "--to-csv writes one schedule, not 2"),
        (["gpipe", "--table2"], "--table2 is a table of its own"),
        (["--table2", "-p", "0"], "at least 1 stage, not 0"),
        (["--table2", "--cost", "B=-1"], "B=-1"),
        (["--from", "x.txt"], "takes a .csv or a .py"),
        (["--from", "no such.csv"], "No such file"),
    ],
)
def test_what_can_not_be_is_a_sentence(labtui: Any, arguments: list[str], words: str) -> None:
    assert words in labtui("simulate", *arguments).sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0F0,0X1\n", "line 1, cell 2"),
        ("", "empty"),
        ("0F0,0B0\n1B0,1F0\n", "line 2, cell 1: 1B0 needs 1F0"),
        ("0F0,0F1,0B1,0B0\n1F0,1F1,1B0,1B1,1F2\n", "1F2"),
        ("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "never finishes: device 0 waits with B0"),
    ],
)
def test_a_csv_that_is_no_schedule(labtui: Any, tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    assert words in labtui("simulate", "--from", str(file)).sentence


def test_a_csvs_sizes_can_not_be_overruled(labtui: Any, tmp_path: Path) -> None:
    file = tmp_path / "order.csv"
    file.write_text("0F0,0B0\n")
    assert "-m is 4, but order.csv has 1" in labtui("simulate", "--from", str(file), "-m", "4").sentence


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    command = f"{sys.executable} -m labtui.cli.main simulate 1f1b -m 200 --json | head -c 10"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.stdout.startswith("{") and done.stderr == ""


def test_it_starts_without_anything_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from labtui.cli.main import main; main(['simulate', '1f1b']); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert "GPU0 |" in done.stdout
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"torch", "numpy", "textual", "rich", "asyncio", "plotext", "psutil", "pynvml", "ortools"}


def test_a_terminal_gets_colours_unless_no_color_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert simulate._in_colour("auto") and not simulate._in_colour("never")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not simulate._in_colour("auto") and simulate._in_colour("always")

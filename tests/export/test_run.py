"""Exports of a run: every number that it wrote is there, unknown stays unknown, and nothing from outside is obeyed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from made import MakeRun, make_run

from labtui.cli import main as cli
from labtui.export import report, table, trace, whole
from labtui.runs.folder import RunFolder, write_json
from labtui.runs.records import Labels

make_run = make_run
EVENTS = [
    {"t": 10.0, "kind": "metric", "name": "loss", "value": 2.5, "step": 1, "unit": "nats", "labels": {"way": "ddp"}},
    {"t": 11.0, "kind": "metric", "name": "loss", "value": None, "why": "nan", "step": 2, "labels": {"way": "ddp"}},
    {"t": 12.0, "kind": "result", "name": "busbw", "value": 11.25, "unit": "GB/s", "labels": {"size_bytes": 1024}},
    {"t": 12.5, "kind": "check", "name": "sums | agree", "value": 3e-8, "at_most": 1e-6, "passed": True},
    {"t": 12.6, "kind": "prediction", "name": "bytes", "predicted": 100, "measured": 110, "why": "_rings_"},
    {"t": 12.7, "kind": "note", "text": "2 ranks share\x1b[2J a `core`"},
    {"t": 12.8, "kind": "span", "lane": "communication", "name": "bucket 1", "start": 11.0, "end": 11.5},
]  # fmt: skip
SAMPLES: list[dict[str, Any]] = [
    {"t": 10.0, "gpus": [{"index": 0, "util": 97, "nvlink_rx": None, "why": {"nvlink_rx": "not supported"}}],
     "ranks": [{"rank": 0, "pid": 5, "cpu": 99.0}], "host": {"cpu": 34.0, "net": {"lo": {"rx": 0.5, "tx": 0.25}}}},
    {"t": 11.0, "gpus": [], "ranks": [], "host": {"cpu": None}},
]  # fmt: skip


@pytest.fixture
def folder(make_run: MakeRun) -> RunFolder:
    checks = [{**event, "rank": 0} for event in EVENTS if event["kind"] == "check"]
    predictions = [{**event, "rank": 0} for event in EVENTS if event["kind"] == "prediction"]
    results = [{**event, "rank": 0} for event in EVENTS if event["kind"] == "result"]
    folder = make_run(
        labels=Labels(note="# not a heading"),
        status={"reason": "all 1 checks passed", "checks": checks, "predictions": predictions, "results": results},
    )
    lines = [json.dumps(event) for event in EVENTS]
    folder.rank_events(0).write_text("\n".join([*lines[:3], "torn {", *lines[3:], '{"kind": "metric", "na']))
    (folder.telemetry / "box.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in SAMPLES))
    write_json(folder.machine_file, {"cpu": "a CPU", "cores": 4, "gpus": [{"index": 0, "name": "RTX 5090"}]})
    return folder


def rows(lines: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(lines))))


def test_a_row_per_number_with_unknown_left_empty(folder: RunFolder) -> None:
    found = rows(table.events([folder]))
    assert [row["kind"] for row in found] == ["metric", "metric", "result", "check", "prediction"]
    assert {row["run"] for row in found} == {folder.id}
    assert [row["value"] for row in found] == ["2.5", "", "11.25", "3e-08", "110"]
    assert found[0]["label.way"] == "ddp" and found[2]["label.size_bytes"] == "1024"
    assert (found[3]["passed"], found[3]["bound"]) == ("true", "<= 1e-06")
    assert found[4]["predicted"] == "100"
    assert float(found[0]["t"]) == 10.0


def test_samples_of_gpus_ranks_and_host(folder: RunFolder) -> None:
    gpu, rank, host, later = rows(table.samples([folder]))
    assert (gpu["of"], gpu["number"], gpu["util"], gpu["nvlink_rx"]) == ("gpu", "0", "97", "")
    assert (rank["of"], rank["cpu"], rank["util"]) == ("rank", "99.0", "")
    assert (host["host"], host["net.lo.rx"]) == ("box", "0.5")
    assert later["cpu"] == ""


def test_one_document_holds_everything(folder: RunFolder) -> None:
    document = json.loads("".join(whole.text(folder)))
    assert document["id"] == folder.id and document["state"] == "succeeded"
    assert [event["kind"] for event in document["events"]] == [event["kind"] for event in EVENTS]
    assert [sample["host_name"] for sample in document["telemetry"]] == ["box", "box"]
    assert document["machine"]["cores"] == 4 and document["nccl"] is None


def test_a_trace_begins_with_the_first_event(folder: RunFolder) -> None:
    events = json.loads(trace.text(folder))["traceEvents"]
    (span,) = [event for event in events if event["ph"] == "X"]
    assert (span["name"], span["ts"], span["dur"]) == ("bucket 1", 1e6, 5e5)
    counted = {(event["name"], event["args"]["value"]) for event in events if event["ph"] == "C"}
    assert ("utilization, %", 97) in counted and ("loss ddp", 2.5) in counted
    assert not any(name.startswith("NVLink") for name, _ in counted), "unknown is no 0"


def test_a_report_says_what_was_run_predicted_measured_and_concluded(folder: RunFolder) -> None:
    text = report.text(folder, None)
    for wanted in (
        "# ddp_by_hand", "**succeeded**: all 1 checks passed", "Note: \\# not a heading", "| GPU 0 | RTX 5090 |",
        "| sums \\| agree | passed | 3e-08 | at most 1e-06 |", "| bytes | 100 | 110 |  | 1.100 | \\_rings\\_ |",
        "| busbw | size_bytes=1024 | 11.25 | GB/s |", "- 2 ranks share a \\`core\\`", "loss",
    ):  # fmt: skip
        assert wanted in text
    assert "\x1b" not in text


@pytest.mark.parametrize("format", ["csv", "json", "md", "perfetto"])
def test_the_command_writes_each_form(
    folder: RunFolder, format: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", folder.id, "--format", format]) == 0
    printed = capsys.readouterr().out
    assert len(printed) > 200
    place = tmp_path / "out"
    for code, extra in ((0, []), (2, []), (0, ["--force"])):
        assert cli.main(["export", folder.id, "--format", format, "--output", str(place), *extra]) == code
    assert place.read_text() == printed
    assert "exists already" in capsys.readouterr().err


def test_what_has_no_table_is_refused(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["export", folder.id, folder.id, "--format", "md"]) == 2
    assert cli.main(["export", folder.id, "--format", "json", "--telemetry"]) == 2
    assert cli.main(["export", "nosuchrun", "--format", "csv"]) == 2
    assert capsys.readouterr().err.count("labtui: ") == 3

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.catalog import sources

MANIFEST = """
format = 1
title = "All-reduce sweep"
question = "How fast do these cards add up their gradients?"
topic = "communication"
order = 20
devices = ["cuda", "cpu"]
minutes = 0.5
[parameters.max_bytes]
type = "int"
default = 1024
unit = "B"
[variants.p2p_off]
title = "peer access forbidden"
environment = { NCCL_P2P_DISABLE = "1" }
"""


@pytest.fixture
def own_experiments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own experiments, with a good one and a broken one; there are no others."""
    own = tmp_path / "mine"
    for name, text in (("my_sweep", MANIFEST), ("my_torn", "format = ")):
        (own / name).mkdir(parents=True)
        (own / name / "experiment.toml").write_text(text)
        (own / name / "main.py").write_text("raise SystemExit('reading executes nothing')")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(own))
    monkeypatch.setattr(sources, "built_in", lambda: tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    return own


def test_experiments_by_topic_and_what_is_broken(labtui, own_experiments: Path) -> None:
    done = labtui("experiments")
    assert done.code == 0
    assert done.out.splitlines() == [
        "communication",
        "  my_sweep: All-reduce sweep",
        "    How fast do these cards add up their gradients?",
        "    cuda, cpu; about 0.5 min",
        "    variants: p2p_off",
    ]
    assert done.err.startswith("labtui: my_torn is broken: ")


def test_json_has_the_fields_of_the_manifest(labtui, own_experiments: Path) -> None:
    whole, broken = labtui("experiments", "--json").json
    assert (whole["name"], whole["topic"], whole["error"]) == ("my_sweep", "communication", None)
    assert whole["folder"] == str(own_experiments / "my_sweep")
    assert whole["processes"]["default"] == "gpus"
    assert whole["parameters"]["max_bytes"]["default"] == 1024
    assert whole["variants"]["p2p_off"]["environment"] == {"NCCL_P2P_DISABLE": "1"}
    assert broken["name"] == "my_torn" and "experiment.toml" in broken["error"]


def test_no_experiments(labtui, own_experiments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LABTUI_EXPERIMENTS")
    done = labtui("experiments")
    assert (done.code, done.out, done.err) == (0, "", "labtui: there are no experiments\n")


def test_labtuis_own_experiments_are_listed(labtui) -> None:
    done = labtui("experiments", "--json")
    assert "ddp_by_hand" in [document["name"] for document in done.json]
    assert [document["error"] for document in done.json if document["error"]] == []

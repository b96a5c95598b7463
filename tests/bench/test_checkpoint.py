"""checkpoint: what is damaged is refused whole, with the file's name; what isn't, is not."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from labtui.bench import checkpoint  # noqa: E402


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    from torch.distributed import checkpoint as dcp

    place = tmp_path / "saved"
    dcp.save({"model": {"a": torch.arange(1000.0), "b": torch.ones(3)}}, checkpoint_id=place, no_dist=True)
    return place


def test_a_whole_one_is_not_refused(saved):
    assert checkpoint.damage(saved) is None
    (shard,) = saved.glob("*.distcp")
    with shard.open("ab") as file:
        file.write(b"more than is needed")
    assert checkpoint.damage(saved) is None


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda place, shard: shard.unlink(), "{shard} is missing, one of 1 shards"),
        (lambda place, shard: os.truncate(shard, shard.stat().st_size - 1), "{shard} was cut short, "),
        (lambda place, shard: os.truncate(shard, 0), "{shard} was cut short, 0 bytes of "),
        (lambda place, shard: (place / ".metadata").unlink(), "{place}/.metadata is missing, so it was never finished"),
        (lambda place, shard: (place / ".metadata").write_bytes(b"noise"), "{place}/.metadata can't be read ("),
        (lambda place, shard: os.truncate(place / ".metadata", 100), "{place}/.metadata can't be read ("),
    ],
)
def test_damage_is_found_and_named(saved, harm, sentence):
    (shard,) = saved.glob("*.distcp")
    harm(saved, shard)
    found = checkpoint.damage(saved)
    assert found is not None and "\n" not in found
    assert found.startswith("checkpoint can't be loaded whole: " + sentence.format(place=saved, shard=shard))


def test_no_folder(tmp_path):
    assert checkpoint.damage(tmp_path / "nothing") == f"{tmp_path / 'nothing'} is no folder with a checkpoint"


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (torch.nn.Linear(3, 1), r"is a checkpoint of another model: model.weight is \[2, 2\] there, \[1, 3\] here"),
        (torch.nn.Sequential(torch.nn.Linear(2, 2)), "is a checkpoint of something else: it has no model.0.weight"),
    ],
)
def test_one_of_another_model_is_told_apart(tmp_path, other, sentence):
    from torch.distributed import checkpoint as dcp

    def training(model):
        return SimpleNamespace(model=model, optimizer=torch.optim.AdamW(model.parameters()), steps=3)

    saved = checkpoint._state(training(torch.nn.Linear(2, 2)))
    dcp.save(saved, checkpoint_id=tmp_path / "saved", no_dist=True)
    found = checkpoint._mismatch(tmp_path / "saved", training(other))

    assert re.search(sentence, found)
    assert checkpoint._mismatch(tmp_path / "saved", training(torch.nn.Linear(2, 2))) is None


def test_bits_are_compared_not_values():
    nan = torch.tensor([float("nan"), 1.0])
    assert checkpoint._differ(nan, nan.clone()) == 0
    assert checkpoint._differ(torch.tensor([0.0]), torch.tensor([-0.0])) == 1
    assert checkpoint._differ(torch.zeros(3), torch.zeros(4)) == 4
    assert checkpoint._differ(torch.zeros(3), torch.zeros(3, dtype=torch.float64)) == 3


def test_where_it_would_be_put(tmp_path, monkeypatch):
    assert checkpoint.parent(str(tmp_path / "new" / "folder")) == tmp_path
    monkeypatch.setenv("LABTUI_RUN_DIR", str(tmp_path))
    assert checkpoint.parent() == tmp_path

"""What a script is started with becomes typed values, or one sentence and exit code 2."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from labtui.bench import parameters

MANIFEST = """
[parameters.steps]
type = "int"
default = 40
cpu_default = 20
minimum = 1
maximum = 100
[parameters.rate]
type = "float"
default = 0.5
[parameters.fast]
type = "bool"
default = false
[parameters.title]
type = "str"
default = "x"
[parameters.dtype]
type = "choice"
choices = ["float32", "float64"]
default = "float32"
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "experiment.toml").write_text(MANIFEST)
    monkeypatch.setenv("LABTUI_DEVICE", "cpu")
    monkeypatch.delenv("RANK", raising=False)
    return str(tmp_path / "main.py")


def test_defaults_are_the_devices(script, monkeypatch):
    assert vars(parameters.read(script, [])) == {
        "steps": 20, "rate": 0.5, "fast": False, "title": "x", "dtype": "float32"
    }  # fmt: skip
    monkeypatch.setenv("LABTUI_DEVICE", "cuda")
    assert parameters.read(script, []).steps == 40


def test_arguments_are_json_or_as_a_person_types_them(script):
    read = parameters.read(script, ["steps=3", "rate=2", "fast=true", 'title="a \\u00e4=b"', 'dtype="float64"'])
    assert vars(read) == {"steps": 3, "rate": 2.0, "fast": True, "title": "a ä=b", "dtype": "float64"}
    assert isinstance(read.rate, float)
    read = parameters.read(script, ["title=12", "dtype=float64"])
    assert (read.title, read.dtype) == ("12", "float64")


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("stepz=3", "there is no parameter 'stepz': steps, rate, fast, title, dtype can be set"),
        ("--steps", "'--steps' is no parameter: name=value expected"),
        ("steps=2.5", "steps is 2.5, a whole number expected"),
        ("steps=true", "steps is True, a whole number expected"),
        ("steps=many", "steps is 'many', a whole number expected"),
        ("steps=0", "steps is 0, its minimum is 1"),
        ("steps=101", "steps is 101, its maximum is 100"),
        ("rate=NaN", "rate is nan, a number expected"),
        ("fast=1", "fast is 1, true or false expected"),
        ("dtype=float16", "dtype is 'float16', 'float32' or 'float64' expected"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(script, capsys, argument, sentence):
    with pytest.raises(SystemExit) as leaving:
        parameters.read(script, [argument])
    assert leaving.value.code == 2
    assert capsys.readouterr().err == sentence + "\n"


def test_only_rank_0_says_the_sentence(script, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit) as leaving:
        parameters.read(script, ["stepz=3"])
    assert leaving.value.code == 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("manifest", [None, "parameters = 3", "[parameters", "parameters.x = 1"])
def test_a_broken_manifest_gets_one_sentence(script, capsys, manifest):
    file = Path(script).with_name("experiment.toml")
    file.unlink() if manifest is None else file.write_text(manifest)
    with pytest.raises(SystemExit):
        parameters.read(script, [])
    assert capsys.readouterr().err.count("\n") == 1


def test_an_unknown_device_gets_one_sentence(script, capsys, monkeypatch):
    monkeypatch.setenv("LABTUI_DEVICE", "tpu")
    with pytest.raises(SystemExit):
        parameters.read(script, [])
    assert capsys.readouterr().err == "LABTUI_DEVICE is 'tpu', cpu or cuda expected\n"


def test_a_python_without_a_toml_reader_takes_what_labtui_passes(script, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tomllib", None)
    assert vars(parameters.read(script, ["steps=3", 'title="a=b"'])) == {"steps": 3, "title": "a=b"}
    with pytest.raises(SystemExit):
        parameters.read(script, [])
    assert capsys.readouterr().err.endswith("3.11 or newer is needed\n")

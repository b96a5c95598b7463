"""`labtui topo`: files, stdin, this machine, and what isn't a topology."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from fake_nvml import fixture

from labtui.cli import main

fake_nvml_library, fake_nvml = fixture.fake_nvml_library, fixture.fake_nvml

DATA = Path(__file__).resolve().parents[1] / "data/topo"
PAIR = DATA / "topo-3gpu-nvlink-pair.log"


@pytest.fixture(autouse=True)
def command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.COMMANDS, "topo", ("labtui.cli.topo", "how the GPUs hang together"))


def stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("path", sorted(DATA.glob("*.log")), ids=lambda path: path.stem)
def test_the_fields_of_the_corpus(labtui, path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    del expected["source"], expected["diagnosis"]
    told = labtui("topo", str(path), "--json").json
    assert {field: told[field] for field in expected} == expected
    assert told["diagnosis"].endswith(".")


def test_for_people(labtui) -> None:
    done = labtui("topo", str(PAIR))
    lines = done.out.splitlines()
    assert lines[:4] == [
        "from  GPU0  GPU1  GPU2",
        "GPU0  X     SYS   SYS",
        "GPU1  SYS   X     NV12",
        "GPU2  SYS   NV12  X",
    ]
    assert lines[5].startswith("NV12  1 pair: at most 300.0 GB/s (12 x NVLink 3, 12 x NVLink 4) or 600.0 GB/s (")
    assert lines[5].endswith("one way; which, isn't told")
    assert lines[6].startswith(
        "SYS  2 pairs, through the link between two CPU sockets or NUMA nodes: at most 15.8 GB/s"
    )
    assert "GPU1 near CPUs 24-47,72-95; NUMA node 1" in lines
    assert "NVLink joins GPU1, GPU2 (NV12)" in lines[-1]


def test_nics_by_their_devices_names(labtui) -> None:
    done = labtui("topo", str(DATA / "topo-8xh100-nvswitch-9nic.log"))
    assert "GPU0 near CPUs 0-51,104-155; NUMA node 0; NICs mlx5_1 (PIX)" in done.out.splitlines()


def test_from_stdin(labtui, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, PAIR.read_bytes())
    assert labtui("topo", "-", "--json").json["transports"] == {"SYS": 2, "NV12": 1}


def test_a_file_that_powershell_wrote(labtui, tmp_path: Path) -> None:
    (tmp_path / "topo.txt").write_text(PAIR.read_text(), encoding="utf-16")
    assert labtui("topo", str(tmp_path / "topo.txt"), "--json").json["transports"] == {"SYS": 2, "NV12": 1}


def test_this_machine(labtui, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script("gpus 2", "topology pairs", "gpu * nvlink_links 4", "gpu * nvlink_speed_mbps 14062")
    done = labtui("topo")
    assert "NV4  1 pair: at most 56.2 GB/s (4 x NVLink 4) one way (source: the speed of one link" in done.out
    assert done.out.splitlines()[-1].startswith("2 GPUs, each pair joined by 4 NVLinks (NV4)")
    told = labtui("topo", "--json").json
    assert (told["pairs"], told["ceilings"][0]["gb_per_s"]) == ([[0, 1, "NV4"]], 56.248)
    assert told["p2p"]["read"] == [[0, 1, "OK"], [1, 0, "OK"]]


def test_a_machine_without_gpus_is_one_quiet_line(labtui, fake_nvml: fixture.FakeNvml) -> None:
    fake_nvml.script("gpus 0")
    done = labtui("topo")
    assert (done.code, done.out, done.err) == (0, "No GPU: the NVIDIA driver finds no GPU.\n", "")
    assert labtui("topo", "--json").json["topo"]["gpus"] == 0


# What isn't one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x02\x01\0\0\0", "is no text"),
        (b"hello\n", "holds no table of nvidia-smi topo -m"),
        (b"\xff\xfe", "holds no table of nvidia-smi topo -m"),
        (b"a:1:2 [0] NCCL INFO Bootstrap : Using eth0\n", "it looks like a log of NCCL: try labtui nccl"),
        (b"GPU" * 3_000_000, "has more than 1 MiB"),
    ],
)
def test_other_content_is_one_sentence(labtui, monkeypatch, tmp_path: Path, data: bytes, sentence: str) -> None:
    (tmp_path / "given").write_bytes(data)
    assert sentence in labtui("topo", str(tmp_path / "given")).sentence
    stdin(monkeypatch, data)
    assert labtui("topo", "-").sentence.startswith("stdin ")


def test_a_gigabyte_is_not_read(labtui, tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 30)
    assert "has more than 1 MiB" in labtui("topo", str(tmp_path / "huge")).sentence


def test_no_file(labtui, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is a folder" in labtui("topo", str(tmp_path)).sentence
    assert labtui("topo", str(tmp_path / "none")).sentence == f"No such file or directory: {tmp_path / 'none'}"
    monkeypatch.setattr(sys, "stdin", None)
    assert labtui("topo", "-").sentence == "stdin is closed"


def test_names_are_cleaned_before_they_reach_the_terminal(labtui, tmp_path: Path) -> None:
    text = (DATA / "topo-8xh100-nvswitch-9nic.log").read_text().replace("mlx5_1\n", "\x1b]0;owned\x07mlx5_1\x1b[2J\n")
    (tmp_path / "topo\x1b[2J").write_text(text)
    done = labtui("topo", str(tmp_path / "topo\x1b[2J"))
    assert done.code == 0 and "\x1b" not in done.out and "\x07" not in done.out
    (tmp_path / "bad\x1b[2J").write_text("nothing\n")
    assert "\x1b" not in labtui("topo", str(tmp_path / "bad\x1b[2J")).err


def test_reading_a_file_asks_no_driver() -> None:
    code = (
        "import sys; from labtui.cli import main; main.COMMANDS['topo'] = ('labtui.cli.topo', ''); "
        f"main.main(['topo', {str(PAIR)!r}]); "
        "sys.exit(any(name in sys.modules for name in ('pynvml', 'textual', 'rich', 'torch', 'asyncio', 'psutil')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0

"""Whatever a run's folder holds, nothing that a terminal would obey reaches it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from cli.conftest import Done
from fuzz.hostile import OBEYED, Hostile, fill

from labtui.runs.folder import RunFolder

Labtui = Callable[..., Done]
OBEYED_CHARACTER = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
SEEDS = [pytest.param(range(12)), pytest.param(range(12, 400), marks=pytest.mark.slow)]


def assert_harmless(text: str) -> None:
    """No control character but newline and tab, no half characters, no odd line ends, no change of direction."""
    assert not OBEYED_CHARACTER.findall(text), (OBEYED_CHARACTER.findall(text), text)


@pytest.mark.parametrize("seeds", SEEDS)
def test_no_command_prints_what_a_terminal_obeys(labtui: Labtui, make_run, seeds: range) -> None:
    first, second = make_run(), make_run()
    for seed in seeds:
        hostile = Hostile(seed)
        fill(first, hostile.folder())
        fill(second, hostile.folder())
        check_commands(labtui, first, second)


def check_commands(labtui: Labtui, first: RunFolder, second: RunFolder) -> None:
    for command in (
        ("show", first.id), ("runs",), ("logs", first.id), ("compare", first.id, second.id, "--charts"),
        *(("export", first.id, "--format", format) for format in ("md", "csv", "json", "perfetto")),
        ("export", first.id, "--format", "csv", "--telemetry"), ("stop", first.id), ("rerun", first.id, "--set", "x=1"),
    ):  # fmt: skip
        done = labtui(*command)
        assert done.code in (0, 2)
        assert_harmless(done.out)
        assert_harmless(done.err)
    for command in (("show", first.id), ("runs",), ("logs", first.id), ("compare", first.id, second.id)):
        done = labtui(*command, "--json")
        assert done.code == 0 and done.json is not None and done.out.isascii()
        assert_harmless(done.out)


def test_on_a_terminal_logs_keep_colours_and_nothing_else(
    labtui: Labtui, make_run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_run()
    folder.output.write_bytes(b"\n".join(Hostile(seed).log() for seed in range(500)))
    with monkeypatch.context() as patched:
        patched.setattr(sys.stdout, "isatty", lambda: True)
        done = labtui("logs", folder.id)
    assert_harmless(COLOUR.sub("", done.out))


# No argument holds a NUL, and a byte that is no UTF-8 comes as half a character of its own.
@pytest.mark.parametrize("text", [text.replace("\x00", "\x01").replace("\ud800", "\udcff") for text in OBEYED])
def test_no_sentence_repeats_what_a_terminal_obeys(labtui: Labtui, make_run, text: str) -> None:
    make_run()
    for command in (
        (text or "x",), ("show", text), ("run", text), ("run", "ddp_by_hand", "--set", f"{text}=1"), ("memory", text),
        ("run", "ddp_by_hand", "--variant", text or "x"), ("runs", text or "x"), ("simulate", text), ("nccl", text),
        ("topo", text or "x"), ("completion", text), ("show", "last", f"--{text}x"), ("export", "last", "--format",
        text),
        ("simulate", "gpipe", "--devices", text), ("run", "--", text), ("simulate", "--from", text),
    ):  # fmt: skip
        done = labtui(*command)
        assert done.code == 2 and len(done.err.splitlines()) == 1, (command, done)
        assert_harmless(done.out + done.err)


@pytest.mark.parametrize("text", [*OBEYED, *(Hostile(seed).text() for seed in range(20))])
def test_text_of_nccl_is_harmless(labtui: Labtui, tmp_path, text: str) -> None:
    dirty = text.replace("\n", " ").replace("\r", " ")
    log = tmp_path / "nccl.log"
    log.write_bytes(
        f"host{dirty}:1:1 [0] NCCL INFO NCCL version 2.27.5{dirty}\n"
        f"host{dirty}:1:2 [0] NCCL INFO NET/Socket : Using [0]{dirty}:10.0.0.1<0>\n"
        f"host:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM{dirty}/direct\n"
        f"host:1:2 [0] {dirty}file.cc:12 NCCL WARN Call to connect failed : {dirty}\n"
        f"[rank0]: {dirty} torch.distributed.DistBackendError: NCCL error {dirty}\n".encode(errors="surrogatepass")
    )
    for command in (("nccl", str(log)), ("nccl", str(log), "--each")):
        done = labtui(*command)
        assert done.code in (0, 2)
        assert_harmless(done.out + done.err)
    assert labtui("nccl", str(log), "--json").out.isascii()

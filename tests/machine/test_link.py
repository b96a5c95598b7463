"""A shaped link: the rate that it has, who may have one, what is said where it can't be had, and that nothing stays."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.machine import link
from labtui.machine.link import BUS, PER_RANK, Link, LinkError

ROOT = Path(__file__).parents[2]
PLAYERS = Path(__file__).with_name("players.py")
RATE = 200e6
"""Low enough for busy cores to keep up with."""
SIZE = 2_000_000
SECONDS = SIZE / (RATE / 8)
PR_CAPBSET_DROP = 24
CAPABILITIES = (12, 21)
NOBODY = 65534


# Words --------------------------------------------------------------------------------------------------------------


@given(st.integers(1, 999), st.sampled_from([("mbit", 1e6), ("gbit", 1e9)]), st.booleans())
def test_a_rate_is_read_as_written(number: int, unit: tuple[str, float], spaced: bool) -> None:
    rate = number * unit[1]
    if rate > link.FASTEST:
        with pytest.raises(LinkError):
            link.parse_rate(f"{number}{unit[0]}")
    else:
        assert link.parse_rate(f"{number}{' ' * spaced}{unit[0].upper()}") == rate


@given(st.floats(link.SLOWEST, link.FASTEST).map(lambda rate: float(f"{rate:.3g}")))
def test_a_rate_survives_its_words(rate: float) -> None:
    assert link.parse_rate(link.rate_text(rate)) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text", ["", "1", "1gbps", "fast", "0gbit", "-1gbit", "1e3mbit", "101gbit", "10kbit", "1gbit;"]
)
def test_what_is_no_rate_gets_a_sentence(text: str) -> None:
    with pytest.raises(LinkError, match="a rate in bits per second from 1mbit to 100gbit expected"):
        link.parse_rate(text)


# Real namespaces ----------------------------------------------------------------------------------------------------


def test_what_can_be_had_here_is_found() -> None:
    found = skip_unless_had()
    assert found.rate_bits == RATE
    assert found.document() == {"rate_bits": RATE, "model": found.model, **({"why": found.why} if found.why else {})}


def quickest(model: str, seconds: float) -> dict[str, Any]:
    """What was heard when it went as quickly as the link allows: busy cores may hold up a try, never speed it up."""
    for _ in range(6):
        heard = play(model)
        assert heard["seconds"] > seconds * 0.85
        if heard["seconds"] < seconds * 1.6:
            return heard
    pytest.fail(f"no try took less than 1.6 times {seconds} s")


def test_each_rank_has_the_rate_both_ways() -> None:
    skip_unless_had(PER_RANK)
    heard = quickest(PER_RANK, SECONDS)
    assert heard["link"] == {"rate_bits": RATE, "model": PER_RANK}
    assert heard["interfaces"] == ["eth0", "lo"]


def test_on_a_bus_all_share_the_rate() -> None:
    skip_unless_had()
    heard = quickest(BUS, 2 * SECONDS)
    assert heard["link"]["model"] == BUS and heard["interfaces"] == ["lo"]


def test_two_runs_at_once_do_not_meet() -> None:
    skip_unless_had(PER_RANK)
    both = [start(PER_RANK), start(PER_RANK)]  # the same addresses and the same port
    for heard in [heard_from(process) for process in both]:
        assert heard["seconds"] > SECONDS * 0.85


def test_without_roots_power_a_user_namespace_does() -> None:
    skip_unless_had(PER_RANK)
    if subprocess.run([*UNPRIVILEGED, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this system gives no user namespaces")

    def without_power() -> None:
        for capability in CAPABILITIES:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)

    heard = heard_from(start(PER_RANK, preexec_fn=without_power))
    assert heard["seconds"] > SECONDS * 0.85 and heard["uid"] == os.getuid()


def test_a_plain_user_stays_who_they_are_and_gains_nothing() -> None:
    skip_unless_had(PER_RANK)
    python = python_of_nobody()
    heard = heard_from(start(PER_RANK, python, user=NOBODY, group=NOBODY, extra_groups=[]))
    assert heard["seconds"] > SECONDS * 0.85
    assert heard["uid"] == NOBODY and heard["capabilities"] == 0


# Where it can't be had ----------------------------------------------------------------------------------------------


def test_where_one_namespace_is_the_limit_it_is_a_bus() -> None:
    found = find_with_limit(1)
    assert found["model"] == BUS and "limit of namespaces" in found["why"]


def test_where_there_is_no_namespace_one_sentence_says_why() -> None:
    assert find_with_limit(0)["error"] == (
        "a shaped link can't be had here: the system refuses a network namespace "
        "(unshare: the limit of namespaces is reached (sysctl user.max_net_namespaces is 0))"
    )


def test_without_virtual_ethernet_it_is_a_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_had()
    fake(tmp_path, monkeypatch, "ip", "veth", "Error: Unknown device type.")
    found = link.find(RATE, 2)
    assert found.model == BUS and "type veth" in found.why and found.why.endswith("failed: Error: Unknown device type.")


def test_without_token_buckets_there_is_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_unless_had()
    fake(tmp_path, monkeypatch, "tc", "tbf", "Error: Specified qdisc kind is unknown.")
    with pytest.raises(LinkError, match=r"^a shaped link can't be had here: `tc .* tbf .*` failed: .*kind is unknown"):
        link.find(RATE, 2)


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_TOOLS_PATH", "/nowhere")
    with pytest.raises(LinkError, match="the program ip is missing"):
        link._ip("link set lo up")


def test_the_command_hears_why_it_can_not_start() -> None:
    skip_unless_had()
    done = subprocess.run(
        [*link.prefix(Link(RATE, BUS), 1), "no-such-program"], capture_output=True, text=True, check=False
    )
    assert (
        done.returncode == 1 and done.stderr == "labtui: no-such-program can't be started: No such file or directory\n"
    )


# What stays ---------------------------------------------------------------------------------------------------------


def test_nothing_stays_of_a_link_whose_command_is_killed() -> None:
    skip_unless_had(PER_RANK)
    here = Path("/proc/self/ns/net").readlink()
    process = subprocess.Popen(
        [*link.prefix(Link(RATE, PER_RANK), 2), sys.executable, "-c", "print('on', flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        there = Path(f"/proc/{process.pid}/ns/net").readlink()
        held = [path.readlink() for path in Path(f"/proc/{process.pid}/fd").iterdir()]
        ranks = [namespace for namespace in held if str(namespace).startswith("net:")]
        assert there != here and len(set(ranks)) == 2 and there not in ranks
        assert holders({there, *ranks}) == {process.pid}, "no process but the command's own"
        assert not any(Path("/run/netns").glob("*")), "no name"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert holders({there, *ranks}) == set()


# Means --------------------------------------------------------------------------------------------------------------

UNPRIVILEGED = ("unshare", "--user", "--map-root-user")


def skip_unless_had(model: str | None = None) -> Link:
    try:
        found = link.find(RATE, 2)
    except LinkError as error:
        pytest.skip(str(error))
    if model not in (None, found.model):
        pytest.skip(found.why)
    return found


def start(model: str, python: str = sys.executable, **options: Any) -> subprocess.Popen[str]:
    command = [python, *link.prefix(Link(RATE, model), 2)[1:], python, str(PLAYERS), str(SIZE)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def heard_from(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    heard: dict[str, Any] = json.loads(output)
    return heard


def play(model: str) -> dict[str, Any]:
    return heard_from(start(model))


def python_of_nobody() -> str:
    """A Python that a user without rights can run on this checkout."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            probe = [python, "-c", "import sys, labtui.machine.link; sys.exit(sys.version_info < (3, 11))"]
            done = subprocess.run(
                probe, env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, check=False,
                user=NOBODY, group=NOBODY, extra_groups=[],
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0:
            return python
    pytest.skip("no Python here that another user can run on this checkout")


def find_with_limit(namespaces: int) -> dict[str, Any]:
    """What is found where the system allows so many network namespaces: a real limit, of a user namespace."""
    limit = "/proc/sys/user/max_net_namespaces"
    code = (
        "import json\nfrom labtui.machine import link\n"
        f"try: print(json.dumps(link.find({RATE}, 2).document()))\n"
        "except link.LinkError as error: print(json.dumps({'error': str(error)}))"
    )
    done = subprocess.run(
        [*UNPRIVILEGED, "sh", "-c", f'echo {namespaces} > {limit} && exec "$@"', "sh", sys.executable, "-c", code],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"no limit can be set here: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, tool: str, word: str, answer: str) -> None:
    """Puts a tool before the real one that fails at the first line with this word."""
    real = shutil.which(tool, path=link._TOOLS_PATH)
    script = folder / tool
    script.write_text(
        f"#!/bin/sh\nlines=$(cat)\nat=$(printf '%s\\n' \"$lines\" | grep -n {word} | head -n 1 | cut -d: -f1)\n"
        f'if [ -n "$at" ]; then echo "{answer}" >&2; echo "Command failed -:$at" >&2; exit 1; fi\n'
        f'printf \'%s\\n\' "$lines" | exec {real} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def holders(namespaces: set[Path]) -> set[int]:
    """The processes that are in one of these namespaces or hold it open."""
    found = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            places = [process / "ns/net", *(process / "fd").iterdir()]
            if any(place.readlink() in namespaces for place in places):
                found.add(int(process.name))
        except OSError:
            continue  # gone, or somebody else's
    return found

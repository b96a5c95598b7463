"""Variables that somebody left behind, in the environment and in NCCL's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from labtui.machine.doctor import environment
from labtui.machine.doctor.finding import Finding


def found(environ: dict[str, str], root: Path, gpus: int = 2, cores: int = 8) -> dict[str, Finding]:
    findings = environment.inherited(environ, gpus, root, cores)
    assert len({finding.name for finding in findings}) == len(findings)
    return {finding.name: finding for finding in findings}


def test_leftover_variables_are_listed_and_secrets_masked(tmp_path: Path) -> None:
    environ = {
        "NCCL_BUFFSIZE": "1048576",
        "NCCL_PSK": "0123456789abcdef0123456789abcdef",
        "NCCL_VERSION": "2.18.3-1",
        "PET_NPROC_PER_NODE": "4",
        "TORCH_HUB_TOKEN": "hf_x",
        "GLOO_X": "a\x1b[31m",
        "A": "b",
    }
    (finding,) = environment.inherited(environ, 2, tmp_path)
    assert finding.level == "note"
    assert finding.found == (
        r"GLOO_X='a\x1b[31m', NCCL_BUFFSIZE=1048576, NCCL_PSK=***, PET_NPROC_PER_NODE=4, TORCH_HUB_TOKEN=***"
    )


def test_nothing_is_left_over(tmp_path: Path) -> None:
    (finding,) = environment.inherited({"NCCL_VERSION": "2.18.3-1", "PATH": "/bin"}, 2, tmp_path)
    assert (finding.name, finding.level) == ("environment", "ok")


@pytest.mark.parametrize(
    ("name", "value", "level"),
    [
        ("NCCL_P2P_DISABLE", "1", "warn"),
        ("NCCL_P2P_DISABLE", "0", None),
        ("NCCL_P2P_LEVEL", "LOC", "warn"),
        ("NCCL_P2P_LEVEL", "NVL", None),
        ("NCCL_SHM_DISABLE", "1", "warn"),
        ("NCCL_ALGO", "Ring", "warn"),
        ("NCCL_PROTO", "LL128", "warn"),
        ("NCCL_COMM_ID", "10.0.0.1:2222", "warn"),
        ("NCCL_TOPO_FILE", "/nowhere/topo.xml", "warn"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", "warn"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", None),
        ("TORCH_NCCL_BLOCKING_WAIT", "1", "warn"),
        ("CUDA_LAUNCH_BLOCKING", "1", "warn"),
        ("CUDA_LAUNCH_BLOCKING", "0", None),
        ("PET_NNODES", "2", "fail"),
        ("PET_NNODES", "2:4", "fail"),
        ("PET_NNODES", "1:4", None),
        ("PET_NNODES", "1", None),
        ("PET_NO_PYTHON", "1", "fail"),
        ("PET_MODULE", "1", "fail"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "warn"),
        ("TORCH_DISTRIBUTED_DEBUG", "detail", "warn"),
        ("TORCH_DISTRIBUTED_DEBUG", "INFO", None),
        ("TORCH_DISTRIBUTED_DEBUG", "", None),
    ],
)
def test_what_a_variable_does(tmp_path: Path, name: str, value: str, level: str | None) -> None:
    finding = found({name: value}, tmp_path).get(name)
    assert (finding.level if finding else None) == level
    assert finding is None or (finding.found == value and finding.why and finding.advice == f"unset {name}")


def test_settings_of_nccl_are_no_matter_without_gpus(tmp_path: Path) -> None:
    assert "NCCL_P2P_DISABLE" not in found({"NCCL_P2P_DISABLE": "1"}, tmp_path, gpus=0)
    assert "PET_NNODES" in found({"PET_NNODES": "2"}, tmp_path, gpus=0)


def test_a_topology_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "topo.xml").write_text("<system/>")
    assert "NCCL_TOPO_FILE" not in found({"NCCL_TOPO_FILE": str(tmp_path / "topo.xml")}, tmp_path)


# NCCL's files -------------------------------------------------------------------------------------------------------


def test_settings_in_files_count_too_and_the_environment_wins(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("# NCCL_ALGO=Tree\nNCCL_P2P_DISABLE=1\nNCCL_DEBUG = WARN\nnonsense\n")
    told = found({}, tmp_path)
    assert told["NCCL's nccl.conf"].found == "/etc/nccl.conf sets NCCL_P2P_DISABLE=1 and NCCL_DEBUG=WARN"
    assert "file of settings" in told["NCCL_P2P_DISABLE"].advice
    assert told["NCCL's log"].found == "NCCL_DEBUG=WARN"
    assert "NCCL_P2P_DISABLE" not in found({"NCCL_P2P_DISABLE": "0"}, tmp_path)


def test_the_users_file_wins_over_the_systems(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("NCCL_ALGO=Ring\nNCCL_SHM_DISABLE=1\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/.nccl.conf").write_text("NCCL_ALGO=Tree\n")
    told = found({"HOME": str(tmp_path / "home")}, tmp_path)
    assert (told["NCCL_ALGO"].found, told["NCCL_SHM_DISABLE"].found) == ("Tree", "1")
    assert {"/etc/nccl.conf", f"{tmp_path}/home/.nccl.conf"} <= set(told)
    other = tmp_path / "other.conf"
    other.write_text("NCCL_ALGO=NVLS\n")
    assert found({"HOME": str(tmp_path), "NCCL_CONF_FILE": str(other)}, tmp_path)["NCCL_ALGO"].found == "NVLS"


# Others -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "noted"),
    [
        ({"NCCL_DEBUG": "WARN"}, True),
        ({"NCCL_DEBUG": "info"}, False),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/tmp/x"}, True),
        ({"NCCL_DEBUG_SUBSYS": "COLL"}, True),
        ({}, False),
    ],
)
def test_a_log_that_labtui_can_not_read(tmp_path: Path, environ: dict[str, str], noted: bool) -> None:
    assert ("NCCL's log" in found(environ, tmp_path)) is noted
    assert "NCCL's log" not in found(environ, tmp_path, gpus=0)


@pytest.mark.parametrize(("value", "warned"), [("1", False), ("2", False), ("8", True), ("64", True), ("x", False)])
def test_threads_that_step_on_each_other(tmp_path: Path, value: str, warned: bool) -> None:
    assert ("OMP_NUM_THREADS" in found({"OMP_NUM_THREADS": value}, tmp_path, cores=8)) is warned

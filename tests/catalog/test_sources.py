"""Where experiments are found, in which order, and how little a broken one disturbs the others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from labtui.catalog import sources
from labtui.catalog.manifest import TOPICS, CatalogError, Experiment
from labtui.catalog.sources import BrokenExperiment, catalog, find, folders

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab without experiments of its own, seen from an empty working folder; returns labtui's own folder."""
    own, work = tmp_path / "own", tmp_path / "work"
    own.mkdir()
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sources, "built_in", lambda: own)
    return own


def named(*folders: Path) -> str:
    return os.pathsep.join(map(str, folders))


def broken() -> dict[str, str]:
    return {one.name: one.error for one in catalog() if isinstance(one, BrokenExperiment)}


def test_all_four_places_are_looked_in(
    write: Write, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {
        "own": lab,
        "here": tmp_path / "work/experiments",
        "first": tmp_path / "first",
        "second": tmp_path / "second",
        "config": Path(os.environ["XDG_CONFIG_HOME"]) / "labtui/experiments",
    }
    for name, place in places.items():
        write(name, under=place)
    monkeypatch.setenv("LABTUI_EXPERIMENTS", named(places["first"], Path(), places["second"]).replace(":.:", "::"))

    assert folders() == tuple(places.values())
    assert {one.name for one in catalog() if isinstance(one, Experiment)} == set(places)
    for name, place in places.items():
        assert find(name).folder == place / name


def test_the_users_folder_is_the_one_of_platformdirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    for value in (str(tmp_path / "configuration"), "", "relative", "~/config"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert folders()[-1] == Path(platformdirs.user_config_dir("labtui")) / "experiments"


def test_a_place_named_twice_is_read_once(write: Write, lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("one", under=lab)
    (lab.parent / "link").symlink_to(lab)
    monkeypatch.chdir(lab.parent)
    (lab.parent / "experiments").symlink_to(lab)
    monkeypatch.setenv("LABTUI_EXPERIMENTS", named(lab, lab.parent / "link", lab / "../own"))

    assert [one.name for one in catalog()] == ["one"]


def test_the_order_is_topic_then_order_then_name_and_broken_ones_last(write: Write, lab: Path, manifest: str) -> None:
    def of(topic: str, order: int) -> str:
        return manifest.replace('"communication"', f'"{topic}"').replace("order = 20", f"order = {order}")

    for index, topic in enumerate(reversed(TOPICS)):
        write(f"t{index}", under=lab, manifest=of(topic, 5))
    write("b", under=lab, manifest=of("data", 5))
    write("a", under=lab, manifest=of("data", 9))
    write("aa_broken", under=lab, manifest="title = 3")

    assert [one.name for one in catalog()] == ["b", "t7", "a", *(f"t{i}" for i in range(6, -1, -1)), "aa_broken"]


def test_a_broken_manifest_is_listed_with_its_error_and_hides_no_other(write: Write, lab: Path, manifest: str) -> None:
    write("good", under=lab)
    write("no_toml", under=lab, manifest="= =")
    write("no_topic", under=lab, manifest=manifest.replace('"communication"', '"music"'))
    write("no_script", under=lab)
    (lab / "no_script/main.py").unlink()
    write("No-Name", under=lab)
    write("no_manifest", under=lab)
    (lab / "no_manifest/experiment.toml").unlink()
    (lab / "no_file/experiment.toml").mkdir(parents=True)
    (lab / "loop").symlink_to("loop")

    assert isinstance(catalog()[0], Experiment)
    told = broken()
    assert sorted(told) == ["No-Name", "no_file", "no_manifest", "no_script", "no_toml", "no_topic"]
    assert "is no valid TOML" in told["no_toml"]
    assert 'topic is "music"' in told["no_topic"]
    assert 'main is "main.py"' in told["no_script"]
    assert "lower-case letters" in told["No-Name"]
    assert "experiment.toml can't be read (No such file or directory)" in told["no_manifest"]
    assert "experiment.toml is a folder" in told["no_file"]


def test_an_unreadable_manifest_or_folder_is_listed(
    write: Write, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("good", under=lab)
    (lab / "looping").mkdir()
    (lab / "looping/experiment.toml").symlink_to("experiment.toml")
    (tmp_path / "file").touch()
    (tmp_path / "round").symlink_to("round")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", named(tmp_path / "file", tmp_path / "round", tmp_path / "absent"))

    assert isinstance(find("good"), Experiment)
    told = broken()
    assert "can't be read (Too many levels of symbolic links)" in told["looping"]
    assert "can't be listed (Not a directory)" in told["file"]
    assert "can't be listed (Too many levels" in told["round"]
    assert "absent does not exist, but LABTUI_EXPERIMENTS names it" in told["absent"]


def test_folders_without_permission_are_listed(write: Write, lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("good", under=lab)
    closed = write("closed", under=lab)
    (closed / "experiment.toml").chmod(0)
    if os.access(closed / "experiment.toml", os.R_OK):
        pytest.skip("this user (root) may read everything")
    write("inside", under=lab.parent / "locked")
    (lab.parent / "locked").chmod(0)
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(lab.parent / "locked"))
    try:
        assert "Permission denied" in broken()["closed"]
        assert "Permission denied" in broken()["locked"]
    finally:
        (lab.parent / "locked").chmod(0o700)


def test_a_folder_that_denies_reading_is_listed(write: Write, lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("good", under=lab)
    listdir = os.listdir

    def denied(path: Path) -> list[str]:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    monkeypatch.setattr(os, "listdir", denied)
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(lab.parent / "locked"))

    assert [one.name for one in catalog()] == ["good", "locked"]
    assert "can't be listed (Permission denied)" in broken()["locked"]


def test_other_things_in_such_a_folder_are_nobodys_business(write: Write, lab: Path) -> None:
    write("good", under=lab)
    for name in ("__pycache__", ".git", "results"):
        (lab / name).mkdir()
    (lab / "somebodys_project").mkdir()
    (lab / "somebodys_project/main.py").touch()
    (lab / "README.md").touch()
    write("_draft", under=lab)

    assert [one.name for one in catalog()] == ["good"]


def test_a_taken_name_is_not_shadowed_but_told(
    write: Write, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write("sweep", under=lab)
    second = write("sweep", under=tmp_path / "other")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(tmp_path / "other"))

    listed = catalog()
    assert [(type(one), one.folder) for one in listed] == [(Experiment, first), (BrokenExperiment, second)]
    assert broken() == {"sweep": f"{second}: the name sweep is taken by {first}, another name expected"}
    assert find("sweep").folder == first


def test_a_broken_built_in_is_not_shadowed_either(
    write: Write, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("sweep", under=lab, manifest="")
    write("sweep", under=tmp_path / "other")
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(tmp_path / "other"))

    assert all(isinstance(one, BrokenExperiment) for one in catalog())
    with pytest.raises(CatalogError, match="format is missing"):
        find("sweep")


def test_the_same_folder_by_another_way_is_no_shadow(
    write: Write, lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write("sweep", under=lab)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/sweep").symlink_to(folder)
    monkeypatch.setenv("LABTUI_EXPERIMENTS", str(tmp_path / "other"))

    assert [one.folder for one in catalog()] == [folder]


def test_an_unknown_name_is_told_with_the_closest(write: Write, lab: Path) -> None:
    write("ddp_by_hand", under=lab)
    with pytest.raises(CatalogError, match=r'^there is no experiment "ddp_by_hnd", the closest is ddp_by_hand '):
        find("ddp_by_hnd")
    for name in ("zzz", "", "../own/ddp_by_hand", "\x1b[2J"):
        with pytest.raises(CatalogError, match="there is no experiment") as error:
            find(name)
        assert str(error.value).isprintable()


def test_names_of_folders_are_printed_harmlessly(write: Write, lab: Path) -> None:
    write("a\x1b[2J", under=lab)
    (lab / os.fsdecode(b"\xff") / "experiment.toml").mkdir(parents=True)
    for name, error in broken().items():
        assert name.isprintable()
        assert error.isprintable()
    assert len(broken()) == 2


def test_a_working_folder_that_is_gone_is_no_trouble(write: Write, lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("good", under=lab)
    gone = lab.parent / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setenv("LABTUI_EXPERIMENTS", "relative:~nobody_of_that_name/experiments")
    gone.rmdir()

    assert find("good").title


def test_reading_executes_nothing(write: Write, lab: Path, manifest: str, tmp_path: Path) -> None:
    folder = write("sweep", under=lab)
    proof = tmp_path / "executed"
    for name in ("main.py", "conftest.py", "__init__.py", "setup.py", "sitecustomize.py", "tomllib.py", "difflib.py"):
        (folder / name).write_text(f"open({str(proof)!r}, 'w').write(__file__)\n")
        (lab / name).write_text(f"open({str(proof)!r}, 'w').write(__file__)\n")
    before = set(sys.modules)

    from labtui.catalog.guide import read_guide

    assert [one.name for one in catalog()] == ["sweep"]
    read_guide(folder, find("sweep"))

    assert not proof.exists()
    assert not [
        name for name in set(sys.modules) - before if str(lab) in str(getattr(sys.modules[name], "__file__", ""))
    ]


def test_listing_loads_neither_torch_nor_the_dear_modules() -> None:
    code = (
        "import sys; from labtui.catalog import sources, parameters, guide; sources.catalog();"
        "print(*{'torch', 'textual', 'rich', 'platformdirs', 'difflib', 'asyncio', 'sqlite3'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_labtui_finds_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert sources.built_in() == Path(__file__).resolve().parents[2] / "experiments"

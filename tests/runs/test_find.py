from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labtui.runs.find import FindError, listing, resolve, run_names


def test_an_id_a_part_of_it_and_last(own_folders: Path, make_run) -> None:
    first, second = make_run(), make_run(experiment="sweep")
    assert resolve(own_folders, first.id) == first
    assert resolve(own_folders, "sweep") == second
    assert resolve(own_folders, first.id[-4:]) == first
    assert resolve(own_folders, "last") == second
    assert resolve(own_folders, "last~0") == second
    assert resolve(own_folders, "last~1") == first


def test_a_path_of_a_run_folder(own_folders: Path, make_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run(root=tmp_path / "copied")
    assert resolve(own_folders, str(folder.path)) == folder
    monkeypatch.chdir(tmp_path)
    assert resolve(own_folders, f"copied/{folder.id}/") == folder
    assert resolve(own_folders, f"./copied/../copied/{folder.id}") == folder
    monkeypatch.chdir(folder.path)
    assert resolve(own_folders, ".") == folder
    with pytest.raises(FindError, match=r"copied is no run folder: it holds no run\.json"):
        resolve(own_folders, "..")
    with pytest.raises(FindError, match=r"there is no folder .*nowhere"):
        resolve(own_folders, "./nowhere")


def test_several_runs_are_named(own_folders: Path, make_run) -> None:
    folders = [make_run() for _ in range(7)]
    with pytest.raises(FindError) as caught:
        resolve(own_folders, "ddp")
    sentence = str(caught.value)
    assert sentence.startswith("'ddp' fits 7 runs: ")
    assert sentence.endswith(" and 2 more")
    assert [folder.id in sentence for folder in folders] == [False] * 2 + [True] * 5
    with pytest.raises(FindError, match=r"fits 2 runs: .*-0001, .*-0000$"):
        shutil.rmtree(own_folders / folders[6].id)
        for folder in folders[2:6]:
            shutil.rmtree(folder.path)
        resolve(own_folders, "ddp")


@pytest.mark.parametrize("text", ["ddp_by_hnd", "00x0", "20251129-120313"])
def test_an_unknown_run_gets_the_closest(own_folders: Path, make_run, text: str) -> None:
    folder = make_run()
    with pytest.raises(FindError, match=f"no run fits '{text}'; the closest: {folder.id}"):
        resolve(own_folders, text)


def test_nothing_alike(own_folders: Path, make_run) -> None:
    make_run()
    with pytest.raises(FindError, match="no run fits 'zzzz'; `labtui runs` lists them"):
        resolve(own_folders, "zzzz")


@pytest.mark.parametrize("text", ["last", "ddp", "20251129-120312-ddp_by_hand-0000"])
def test_no_runs_at_all(own_folders: Path, text: str) -> None:
    (own_folders / "README.md").write_text("not a run")
    (own_folders / "notes").mkdir()
    with pytest.raises(FindError, match=r"there are no runs in .*logs yet"):
        resolve(own_folders, text)
    with pytest.raises(FindError, match=r"there are no runs in .*missing yet"):
        resolve(own_folders / "missing", text)


def test_last_too_far_back(own_folders: Path, make_run) -> None:
    make_run()
    with pytest.raises(FindError, match="`last~1` goes too far back: there is only 1 run"):
        resolve(own_folders, "last~1")
    make_run()
    with pytest.raises(FindError, match="there are only 2 runs"):
        resolve(own_folders, "last~99")


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_no_run_named(own_folders: Path, text: str) -> None:
    with pytest.raises(FindError, match="a run is needed"):
        resolve(own_folders, text)


def test_runs_of_one_second_are_ordered_by_when_they_were_made(own_folders: Path, make_run) -> None:
    later = make_run(id="20251129-120312-a-0000", created=1_764_417_792.9)
    earlier = make_run(id="20251129-120312-z-ffff", created=1_764_417_792.1)
    oldest = make_run(id="20251129-120311-z-0000", created=1_764_417_791.5)
    assert [resolve(own_folders, f"last~{back}") for back in range(3)] == [later, earlier, oldest]


def test_a_renamed_copy_is_a_run_of_its_time(own_folders: Path, make_run) -> None:
    old, new = make_run(), make_run()
    copy = own_folders / "the good one"
    shutil.copytree(old.path, copy)
    assert resolve(own_folders, "good").path == copy
    assert {resolve(own_folders, f"last~{back}").id for back in (1, 2)} == {old.id, "the good one"}
    assert resolve(own_folders, "last") == new


def test_other_things_in_logs_are_no_runs(own_folders: Path, make_run) -> None:
    folder = make_run()
    (own_folders / "README.md").write_text("")
    (own_folders / "archive").mkdir()
    (own_folders / ".hidden").mkdir()
    (own_folders / ".hidden" / "run.json").write_text("{}")
    (own_folders / f"{folder.id}.tar.gz").write_text("")
    assert run_names(own_folders) == [folder.id]


def test_a_folder_that_cannot_be_read(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(FindError, match="logs can't be read: Permission denied"):
        listing(own_folders)


@given(st.text(max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_text_means_one_run_or_gets_one_sentence(own_folders: Path, make_run, text: str) -> None:
    if not run_names(own_folders):
        make_run(), make_run(experiment="sweep")
    try:
        found = resolve(own_folders, text)
    except FindError as error:
        assert str(error) and "Traceback" not in str(error)
        return
    assert found.path.is_dir()


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_part_finds_its_run_or_says_that_it_fits_several(
    own_folders: Path, make_run, data: st.DataObject
) -> None:
    if not run_names(own_folders):
        make_run(), make_run(), make_run(experiment="sweep")
    names = run_names(own_folders)
    name = data.draw(st.sampled_from(names))
    begin = data.draw(st.integers(0, len(name) - 1))
    part = name[begin : data.draw(st.integers(begin + 1, len(name)))]
    fitting = [other for other in names if part in other]
    if len(fitting) == 1:
        assert resolve(own_folders, part).id == name
    else:
        with pytest.raises(FindError, match=f"fits {len(fitting)} runs"):
            resolve(own_folders, part)

"""Where experiments are found: those that labtui brings, then the user's own.

Reads folders and manifests and executes nothing. One broken experiment hides no other: it is listed with its error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labtui.catalog.manifest import FILE, TOPICS, Experiment, read_experiment
from labtui.catalog.reading import CatalogError, closest, printable, shown, shown_path


@dataclass(frozen=True)
class BrokenExperiment:
    """A folder that should hold an experiment and doesn't; `error` is one sentence that says why."""

    name: str
    """The folder's name, made printable."""
    folder: Path
    error: str


def built_in() -> Path:
    """The folder of labtui's own experiments: in an installed wheel beside its modules, else in the checkout."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "_experiments"
    return installed if installed.is_dir() else package.parent / "experiments"


def folders() -> tuple[Path, ...]:
    """The folders to look in, first ones first, each once; those that nobody named need not exist."""
    places = [built_in(), *_working_folder(), *_named_folders(), *_user_folder()]
    once: dict[str, Path] = {}
    for place in places:
        once.setdefault(os.path.realpath(place), place)
    return tuple(once.values())


def _working_folder() -> Iterator[Path]:
    try:
        yield Path.cwd() / "experiments"
    except OSError:
        return  # somebody deleted it under us


def _named_folders() -> Iterator[Path]:
    """What $LABTUI_EXPERIMENTS names. An empty part names nothing (and not the working folder)."""
    for part in os.environ.get("LABTUI_EXPERIMENTS", "").split(os.pathsep):
        if part.strip():
            path = Path(part)
            try:
                path = path.expanduser()
            except RuntimeError:
                pass  # nobody's home: it will be said that this folder does not exist
            try:
                yield path.absolute()
            except OSError:
                continue  # relative to a folder that is gone


def _user_folder() -> Iterator[Path]:
    """`experiments` in the user's configuration folder."""
    # What platformdirs.user_config_dir("labtui") says on Linux, without the time its import takes.
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        yield (home if home.is_absolute() else Path("~/.config").expanduser()) / "labtui" / "experiments"
    except RuntimeError:
        return  # a user without a home, as in some containers


def catalog() -> tuple[Experiment | BrokenExperiment, ...]:
    """Everything that can be run, by topic, order and name; then what is broken, by name. Raises nothing."""
    whole, broken = [], []
    for found in _found():
        read = found if isinstance(found, BrokenExperiment) else _read(found)
        if isinstance(read, BrokenExperiment):
            broken.append(read)
        else:
            whole.append(read)
    whole.sort(key=lambda experiment: (TOPICS.index(experiment.topic), experiment.order, experiment.name))
    broken.sort(key=lambda one: one.name)
    return (*whole, *broken)


def find(name: str) -> Experiment:
    """The experiment of that name. Raises CatalogError: with the closest name, or with what is broken about it."""
    found = list(_found())
    for one in found:
        # A broken one that only shadows this name must not get into the way of the one that has it.
        if isinstance(one, Path) and one.name == name:
            return read_experiment(one)
    for one in found:
        if isinstance(one, BrokenExperiment) and one.name == name:
            raise CatalogError(f"{name} is broken: {one.error}")
    near = closest(name, [one.name for one in found])
    hint = f", the closest is {near}" if near else ""
    raise CatalogError(f"there is no experiment {shown(name)}{hint} (labtui experiments lists all)")


def _read(folder: Path) -> Experiment | BrokenExperiment:
    try:
        return read_experiment(folder)
    except CatalogError as error:
        return BrokenExperiment(printable(folder.name), folder, str(error))


def _found() -> Iterator[Path | BrokenExperiment]:
    """The experiments' folders, unread; broken where one can't be listed or its name is taken."""
    named = {os.path.realpath(place) for place in _named_folders()}
    taken: dict[str, Path] = {}
    for place in folders():
        try:
            names = sorted(os.listdir(place))
        except FileNotFoundError:
            if os.path.realpath(place) in named:
                error = f"{shown_path(place)} does not exist, but LABTUI_EXPERIMENTS names it"
                yield BrokenExperiment(printable(place.name), place, error)
            continue
        except OSError as error:
            text = f"{shown_path(place)} can't be listed ({error.strerror}), a folder of experiments expected"
            yield BrokenExperiment(printable(place.name), place, text)
            continue
        for name in names:
            folder = place / name
            if name.startswith((".", "_")) or not _looks_like_one(folder):
                continue
            if name not in taken:
                taken[name] = folder
                yield folder
            elif os.path.realpath(folder) != os.path.realpath(taken[name]):
                text = f"{shown_path(folder)}: the name {printable(name)} is taken by {shown_path(taken[name])}"
                yield BrokenExperiment(printable(name), folder, f"{text}, another name expected")


def _looks_like_one(folder: Path) -> bool:
    """Whether a folder means to be an experiment. Many a project has `experiments/` full of other things."""
    return os.path.lexists(folder / FILE) or (
        os.path.lexists(folder / "main.py") and os.path.lexists(folder / "guide.md")
    )

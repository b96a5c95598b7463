"""Which run is meant: RUN on the command line is a run id, an unambiguous part of one, `last`, `last~1`, or a path.

Lists the names in logs/ and no more, so that it is quick with 100,000 runs; ids begin with the time they were made
at, so names sort by age. Knows neither the index nor what a run is about.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from labtui.runs.folder import RUN_ID, RunFolder
from labtui.runs.records import RecordError

_LAST = re.compile(r"last(?:~(\d{1,9}))?")
_STAMP = len("20261129-120312")
_NAMED = 5
"""How many runs an error names at most."""
_COMPARED = 500
"""How many of the newest runs are looked at for the closest name: more would take seconds."""


class FindError(ValueError):
    """No run, or several, are meant. The message is one sentence."""


def resolve(root: Path, text: str) -> RunFolder:
    """The run folder that `text` means, in the logs folder `root` or, if it is a path, anywhere.

    Raises FindError where it means none (naming the closest) or several.
    """
    if not text.strip():
        raise FindError("a run is needed: a run id, a part of one, or `last`")
    if os.sep in text or text in (".", ".."):
        return _at_path(text)
    # Before anything is listed: this is how programs name runs.
    if RUN_ID.fullmatch(text) and (root / text).is_dir():
        return RunFolder(root / text)
    names = run_names(root)
    if not names:
        raise FindError(f"there are no runs in {root} yet: `labtui run NAME` starts one")
    last = _LAST.fullmatch(text)
    if last:
        return RunFolder(root / _nth_newest(root, names, int(last[1] or 0)))
    if text in names:
        return RunFolder(root / text)
    found = [name for name in names if text in name]
    if not found:
        raise FindError(_unknown(names, text))
    if len(found) > 1:
        shown = ", ".join(sorted(found, reverse=True)[:_NAMED])
        more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
        raise FindError(f"{text!r} fits {len(found):,} runs: {shown}{more}")
    return RunFolder(root / found[0])


def run_names(root: Path) -> list[str]:
    """The names of all run folders in `root`, in no order; empty where there is no `root`. Raises FindError."""
    return only_runs(root, listing(root))


def listing(root: Path) -> list[str]:
    """All names in `root`, in no order; empty where there is no `root`. Raises FindError."""
    try:
        return os.listdir(root)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise FindError(f"{root} can't be read: {error.strerror}") from error


def only_runs(root: Path, names: Iterable[str]) -> list[str]:
    """Those of `names` that are run folders: they are named by a run id, or hold a run.json (renamed copies)."""
    return [name for name in names if _looks_like_an_id(name) or _is_renamed_copy(root, name)]


def _looks_like_an_id(name: str) -> bool:
    return RUN_ID.fullmatch(name) is not None


def _is_renamed_copy(root: Path, name: str) -> bool:
    return not name.startswith(".") and name.isprintable() and (root / name / "run.json").is_file()


def _at_path(text: str) -> RunFolder:
    path = Path(os.path.abspath(os.path.expanduser(text)))  # noqa: PTH100, PTH111 - resolve() would follow links
    if not path.is_dir():
        raise FindError(f"there is no folder {path}")
    if not (path / "run.json").exists():
        raise FindError(f"{path} is no run folder: it holds no run.json")
    return RunFolder(path)


def _nth_newest(root: Path, names: list[str], back: int) -> str:
    if back >= len(names):
        count = "is only 1 run" if len(names) == 1 else f"are only {len(names):,} runs"
        raise FindError(f"`last~{back}` goes too far back: there {count}")
    dated = sorted(((second_of(root, name), name) for name in names), reverse=True)
    second = dated[back][0]
    same = [name for dated_second, name in dated if dated_second == second]
    if len(same) == 1:
        return same[0]
    # Ids know seconds; runs of one second (a group's) are put in order by what their run.json says.
    newer = next(place for place, (dated_second, _) in enumerate(dated) if dated_second == second)
    same.sort(key=lambda name: (_created(root, name), name), reverse=True)
    return same[back - newer]


def second_of(root: Path, name: str) -> str:
    """The second (UTC) in which a run was made: as its id says, or a renamed copy's run.json."""
    if _looks_like_an_id(name):
        return name[:_STAMP]
    import time

    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(_created(root, name)))


def _created(root: Path, name: str) -> float:
    try:
        return min(max(RunFolder(root / name).request().created, 0.0), 2.0**36)
    except RecordError:
        return 0.0


def _unknown(names: list[str], text: str) -> str:
    import difflib
    import heapq

    def likeness(name: str) -> float:
        parts = [name, name[:_STAMP], name[_STAMP + 1 : -5], name[-4:]]
        return max(difflib.SequenceMatcher(None, text, part, autojunk=False).ratio() for part in parts)

    ranked = sorted(((likeness(name), name) for name in heapq.nlargest(_COMPARED, names)), reverse=True)
    close = [name for alike, name in ranked[:3] if alike >= 0.6]
    hint = f"the closest: {', '.join(close)}" if close else "`labtui runs` lists them"
    return f"no run fits {text!r}; {hint}"

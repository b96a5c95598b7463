"""experiment.toml: a whole one is read as written; every fault names file, key, what was found, what is allowed."""

from __future__ import annotations

import datetime
import os
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from labtui.catalog.manifest import (
    CatalogError,
    Chart,
    Limits,
    Parameter,
    Processes,
    Variant,
    parse_experiment,
    read_experiment,
)

Write = Callable[..., Path]


def test_a_whole_manifest_is_read_as_written(write: Write) -> None:
    folder = write()

    experiment = read_experiment(folder)

    assert (experiment.name, experiment.folder, experiment.main) == ("sweep", folder, folder / "main.py")
    assert experiment.title == "All-reduce sweep"
    assert (experiment.topic, experiment.order, experiment.launch) == ("communication", 20, "torchrun")
    assert (experiment.devices, experiment.minutes) == (("cuda", "cpu"), 1)
    assert experiment.processes == Processes(None, 2, 1, 8)
    assert experiment.limits == Limits(600, 120)
    assert experiment.parameters == (
        Parameter("max_bytes", "int", 1 << 30, 1 << 26, 1024, None, (), "B", "largest message"),
        Parameter("rate", "float", 1.0, None, 0.5, 2.0),
        Parameter("check", "bool", True),
        Parameter("note", "str", ""),
        Parameter("dtype", "choice", "float32", choices=("float32", "bfloat16")),
    )
    assert isinstance(experiment.parameters[1].default, float)
    assert experiment.variants == (
        Variant(
            "p2p_off",
            "peer access forbidden",
            ("cuda",),
            {"NCCL_P2P_DISABLE": "1"},
            {"rate": 2.0},
            ("sum is right",),
        ),
        Variant("four", "four", ("cuda", "cpu"), link="1gbit", processes=4),
    )
    assert experiment.charts == (Chart("Bus bandwidth", "size_bytes", "busbw", "collective", "log2", "linear"),)


def test_what_may_be_left_out(write: Write) -> None:
    folder = write(
        manifest='format = 1\ntitle = "T"\nquestion = "Q?"\ntopic = "data"\ndevices = ["cpu"]\nminutes = 0.5\n'
    )

    experiment = read_experiment(folder)

    assert experiment.launch == "torchrun"
    assert experiment.processes == Processes(None, 2, 1, 64)
    assert experiment.limits == Limits(600, 120)
    assert (experiment.parameters, experiment.variants, experiment.charts) == ((), (), ())


def test_the_empty_variant_is_the_experiment_as_it_is(write: Write) -> None:
    default = read_experiment(write()).variant("")

    assert default.devices == ("cuda", "cpu")
    assert not default.environment
    assert not default.parameters
    assert not default.expect_failure


@pytest.mark.parametrize(
    ("name", "told"), [("p2p_of", "closest: p2p_off"), ("zzz", "allowed: p2p_off, four"), ("\x1b[2J", "\\x1b[2J")]
)
def test_an_unknown_variant_is_told_with_the_known_ones(write: Write, name: str, told: str) -> None:
    with pytest.raises(CatalogError) as error:
        read_experiment(write()).variant(name)
    assert told in str(error.value)
    assert str(error.value).isprintable()


def test_python_experiments_are_one_process(write: Write, manifest: str) -> None:
    one = manifest.replace('"torchrun"', '"python"').replace("processes = 4\n", "")
    cut = one[: one.index("[processes]")] + one[one.index("[limits]") :]
    assert read_experiment(write(manifest=cut)).processes == Processes(1, 1, 1, 1)


@pytest.mark.parametrize(
    ("processes", "read"),
    [
        ("default = 4\nmaximum = 4", Processes(4, 4, 1, 4)),
        ("minimum = 3", Processes(None, 3, 3, 64)),
        ("maximum = 1", Processes(None, 1, 1, 1)),
        ("minimum = 100", Processes(None, 100, 100, 100)),
    ],
)
def test_process_numbers_left_out_follow_from_those_given(write: Write, processes: str, read: Processes) -> None:
    text = 'format = 1\ntitle = "T"\nquestion = "Q?"\ntopic = "data"\ndevices = ["cpu"]\nminutes = 1\n[processes]\n'
    assert read_experiment(write(manifest=text + processes)).processes == read


# What is replaced in the whole manifest, by what, then: key, found, allowed.
FAULTS = [
    ("format = 1", "format = 2", "format", "is 2", "update labtui"),
    ("format = 1", "format = 2\nnewer_key = 1", "format", "is 2", "update labtui"),
    ("format = 1", "format = 0", "format", "is 0", "a whole number from 1 to 1"),
    ("format = 1", "format = true", "format", "is true", "a whole number"),
    ("format = 1", "", "format", "is missing", "a whole number"),
    ('title = "All-reduce sweep"', "", "title", "is missing", "one line of text"),
    ('title = "All-reduce sweep"', "title = 3", "title", "is 3", "one line of text"),
    ('title = "All-reduce sweep"', 'title = " "', "title", '" "', "one line of text"),
    ('title = "All-reduce sweep"', 'title = "a\\u001b[2J"', "title", "a\\x1b[2J", "one line of text"),
    ('topic = "communication"', 'topic = "music"', "topic", '"music"', '"data" or "communication" or "sharding"'),
    ("order = 20", "order = 1.5", "order", "is 1.5", "a whole number"),
    ("order = 20", "order = true", "order", "is true", "a whole number"),
    ("order = 20", "order = 0x10000000000000000", "order", "beyond 64 bits", "a whole number"),
    ("order = 20", "order = 0x" + "f" * 5000, "order", "beyond 64 bits", "a whole number"),
    ("minutes = 1", "minutes = 0x" + "f" * 5000, "minutes", "beyond 64 bits", "a number above 0"),
    ("order = 20", "orders = 20", "unknown key orders", "closest: order", "allowed: format, title"),
    ("order = 20", '"a\\nb" = 20', 'unknown key "a\\nb"', "", "allowed: format"),
    ('launch = "torchrun"', 'launch = "mpirun"', "launch", '"mpirun"', '"torchrun" or "python"'),
    ('launch = "torchrun"', 'launch = "python"', "processes.default", '"gpus"', "a whole number from 1 to 1"),
    ('devices = ["cuda", "cpu"]', "devices = []", "devices", "an empty list", "out of cuda, cpu"),
    ('devices = ["cuda", "cpu"]', 'devices = "cpu"', "devices", '"cpu"', "a list of different words"),
    ('devices = ["cuda", "cpu"]', 'devices = ["cpu", "cpu"]', "devices", 'holds "cpu" twice', "different words"),
    ('devices = ["cuda", "cpu"]', 'devices = ["tpu"]', "devices", 'holds "tpu"', "out of cuda, cpu"),
    ('devices = ["cuda", "cpu"]', "", "devices", "is missing", "out of cuda, cpu"),
    ('devices = ["cuda", "cpu"]', 'devices = ["cpu"]', "variants.p2p_off.devices", 'holds "cuda"', "out of cpu"),
    ("minutes = 1", "minutes = 0", "minutes", "is 0", "a number above 0"),
    ("minutes = 1", "minutes = nan", "minutes", "is nan", "a number above 0"),
    ("minutes = 1", "minutes = 1979-05-27", "minutes", "a date", "a number above 0"),
    ("[limits]", "[limit]", "unknown key limit", "closest: limits", "allowed: format"),
    ("timeout_s = 600", "timeout_s = -1", "limits.timeout_s", "is -1", "a number above 0"),
    ("stall_s = 120", "stall_s = inf", "limits.stall_s", "is inf", "a number above 0"),
    ("stall_s = 120", "stal_s = 1", "limits.stal_s", "closest: stall_s", "allowed: timeout_s, stall_s"),
    ('default = "gpus"', 'default = "all"', "processes.default", '"all"', '"gpus" or a whole number from 1 to 8'),
    ('default = "gpus"', "default = 9", "processes.default", "is 9", "from 1 to 8"),
    ("cpu_default = 2", "cpu_default = 0", "processes.cpu_default", "is 0", "from 1 to 8"),
    ("minimum = 1\n", "minimum = 0\n", "processes.minimum", "is 0", "of at least 1"),
    ("minimum = 1\n", "minimum = 9\n", "processes.maximum", "is 8", "of at least 9"),
    ("[processes]\n", "processes = 3\n[processess]\n", "unknown key processess", "closest: processes", "allowed"),
    ("[parameters.max_bytes]", "[parameters.maxBytes]", "parameters.maxBytes", "is no name", "lower-case letters"),
    ('type = "int"', 'type = "number"', "parameters.max_bytes.type", '"number"', '"int" or "float"'),
    ('type = "int"', "", "parameters.max_bytes.type", "is missing", '"int" or "float"'),
    ("default = 1073741824", "", "parameters.max_bytes.default", "is missing", "a whole number of at least 1024 B"),
    ("default = 1073741824", "default = 1.5", "parameters.max_bytes.default", "is 1.5", "a whole number of at least"),
    ("default = 1073741824", "default = true", "parameters.max_bytes.default", "is true", "a whole number"),
    ("default = 1073741824", "default = 1023", "parameters.max_bytes.default", "is 1023", "at least 1024 B"),
    ("cpu_default = 67108864", "cpu_default = 1", "parameters.max_bytes.cpu_default", "is 1", "at least 1024 B"),
    ("minimum = 1024", 'minimum = "1K"', "parameters.max_bytes.minimum", '"1K"', "a whole number"),
    ("maximum = 2\n", "maximum = 0.25\n", "parameters.rate.maximum", "is 0.25", "at least 0.5"),
    ("default = 1\n", "default = 3\n", "parameters.rate.default", "is 3", "a number from 0.5 to 2"),
    ("default = 1\n", "default = inf\n", "parameters.rate.default", "is inf", "a number from 0.5 to 2"),
    ("default = true", "default = 1", "parameters.check.default", "is 1", "true or false"),
    ("default = true", "default = true\nmaximum = 1", "parameters.check.type", '"bool" beside maximum', '"int" or "fl'),
    ('default = ""', 'default = "a\\nb"', "parameters.note.default", "a\\nb", "one line of text"),
    ('default = ""', 'default = ""\nchoices = ["a"]', "parameters.note.type", "beside choices", '"choice"'),
    ('default = "float32"', 'default = "int8"', "parameters.dtype.default", '"int8"', '"float32" or "bfloat16"'),
    ('choices = ["float32", "bfloat16"]', "choices = []", "parameters.dtype.choices", "an empty list", "a list of"),
    ('choices = ["float32", "bfloat16"]', "choices = [1, 'a']", "parameters.dtype.choices", 'holds "a"', "numbers"),
    ('choices = ["float32", "bfloat16"]', "", "parameters.dtype.choices", "is missing", "a list of"),
    ('help = "largest message"', 'hlep = "x"', "parameters.max_bytes.hlep", "closest: help", "allowed: type"),
    ("[variants.p2p_off]", "[variants.all]", "variants.all", "is taken", "another name"),
    ("[variants.p2p_off]", "[variants.P2P]", "variants.P2P", "is no name", "lower-case letters"),
    ("[variants.p2p_off]", '[variants.""]', 'variants.""', "is no name", "lower-case letters"),
    ('devices = ["cuda"]', 'device = ["cuda"]', "variants.p2p_off.device", "closest: devices", "allowed: title"),
    ('devices = ["cuda"]', 'devices = ["gpu"]', "variants.p2p_off.devices", 'holds "gpu"', "out of cuda, cpu"),
    ('NCCL_P2P_DISABLE = "1"', "NCCL_P2P_DISABLE = 1", "variants.p2p_off.environment.NCCL_P2P_DISABLE", "is 1", "text"),
    ('NCCL_P2P_DISABLE = "1"', '"A=B" = "1"', 'variants.p2p_off.environment."A=B"', "no name of", "letters, digits"),
    ("{ rate = 2 }", "{ rat = 2 }", "variants.p2p_off.parameters.rat", "closest: rate", "allowed: max_bytes, rate"),
    ("{ rate = 2 }", "{ rate = 9 }", "variants.p2p_off.parameters.rate", "is 9", "a number from 0.5 to 2"),
    ("{ rate = 2 }", "{ check = 0 }", "variants.p2p_off.parameters.check", "is 0", "true or false"),
    ("{ rate = 2 }", "2", "variants.p2p_off.parameters", "is 2", "a table"),
    ('["sum is right"]', "[3]", "variants.p2p_off.expect_failure", "holds 3", "names of checks"),
    ('["sum is right"]', '"sum"', "variants.p2p_off.expect_failure", '"sum"', "a list of"),
    ("processes = 4", "processes = 9", "variants.four.processes", "is 9", "from 1 to 8"),
    ('link = "1gbit"', "link = 1", "variants.four.link", "is 1", "one line of text"),
    ("[[charts]]", "[charts]", "charts", "is a table", "an array of tables"),
    ('x = "size_bytes"', "", "charts[0].x", "is missing", "one line of text"),
    ('x_scale = "log2"', 'x_scale = "ln"', "charts[0].x_scale", '"ln"', '"linear" or "log2" or "log10"'),
    ('x_scale = "log2"', 'xscale = "log2"', "charts[0].xscale", "closest: x_scale", "allowed: title"),
    ("order = 20", 'main = "nothing.py"', 'main is "nothing.py"', "No such file", "a file expected"),
    ("order = 20", 'main = "../outside.py"', 'main is "../outside.py"', "leads to", "within its own folder"),
    ("order = 20", 'main = "/etc/passwd"', 'main is "/etc/passwd"', "leads to", "within its own folder"),
    ("order = 20", 'main = "."', 'main is "."', "is a folder", "a file expected"),
    ("order = 20", "order = ", "is no valid TOML", "line 5", ""),
    ("order = 20", "order = " + "9" * 5000, "is no valid TOML", "", ""),
    ("order = 20", "order = " + "[" * 20000, "nested too deeply", "", ""),
]


@pytest.mark.parametrize(("old", "new", "key", "found", "allowed"), FAULTS)
def test_a_fault_is_told_by_file_key_found_and_allowed(
    write: Write, manifest: str, old: str, new: str, key: str, found: str, allowed: str
) -> None:
    assert old in manifest
    folder = write(manifest=manifest.replace(old, new, 1))
    (folder.parent / "outside.py").write_text("")

    with pytest.raises(CatalogError) as error:
        read_experiment(folder)

    sentence = str(error.value)
    assert str(folder / "experiment.toml") in sentence
    for part in (key, found, allowed):
        assert part in sentence
    assert sentence.isprintable(), "it stands in a terminal"
    assert len(sentence) < 600


@pytest.mark.parametrize("name", ["main.py", "guide.md", "experiment.toml"])
def test_a_link_that_leaves_the_folder_is_refused(write: Write, tmp_path: Path, name: str) -> None:
    folder = write()
    outside = tmp_path / "outside"
    outside.write_text((folder / name).read_text())
    (folder / name).unlink()
    (folder / name).symlink_to(outside)

    with pytest.raises(CatalogError, match=f"{name} leads to .*outside, a file within its own folder expected"):
        read_experiment(folder)


def test_links_within_the_folder_and_to_the_folder_are_followed(write: Write, tmp_path: Path) -> None:
    folder = write()
    (folder / "main.py").rename(folder / "real.py")
    (folder / "main.py").symlink_to("real.py")
    (tmp_path / "linked").symlink_to(folder)

    assert read_experiment(tmp_path / "linked").name == "linked"


def test_a_script_in_a_folder_below_may_be_named(write: Write, manifest: str) -> None:
    folder = write(manifest='main = "src/train.py"\n' + manifest)
    (folder / "src").mkdir()
    (folder / "src/train.py").write_text("")

    assert read_experiment(folder).main == folder / "src/train.py"


def test_files_that_are_no_text_of_a_person_are_refused(write: Write) -> None:
    folder = write()
    for content, told in [(b"a = \xff", "line 1"), (b"#" * 2_000_000, "larger than 1 MiB")]:
        (folder / "experiment.toml").write_bytes(content)
        with pytest.raises(CatalogError, match=told):
            read_experiment(folder)
    (folder / "experiment.toml").unlink()
    os.mkfifo(folder / "experiment.toml")  # opening it would wait for ever
    with pytest.raises(CatalogError, match="is no file"):
        read_experiment(folder)


@pytest.mark.parametrize("name", ["Sweep", "1st", "all-reduce", "a b", "a\x1b[2J"])
def test_a_folders_name_must_be_a_name(write: Write, name: str) -> None:
    with pytest.raises(CatalogError) as error:
        read_experiment(write(name))
    assert "lower-case letters" in str(error.value)
    assert str(error.value).isprintable()


def test_a_file_below_the_working_folder_is_named_from_there(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(manifest="")
    monkeypatch.chdir(folder.parent)
    with pytest.raises(CatalogError, match=r"^sweep/experiment\.toml: format is missing, "):
        read_experiment(folder)


KEYS = st.sampled_from(
    [
        *("format", "title", "topic", "devices", "minutes", "main", "processes", "limits", "parameters", "variants"),
        *("charts", "type", "default", "cpu_default", "minimum", "maximum", "choices", "environment", "link", "x"),
    ]
) | st.text(max_size=6)
PLAIN = (
    st.integers()
    | st.integers(-3, 10)
    | st.just(1 << 200)
    | st.floats()
    | st.booleans()
    | st.text(max_size=8)
    | st.sampled_from(["gpus", "cpu", "cuda", "int", "float", "choice", "../main.py", "p2p_off"])
    | st.just(datetime.date(2026, 11, 29))
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


def places(document: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The paths of all values in a document."""
    if isinstance(document, dict):
        inside = list(document.items())
    elif isinstance(document, list):
        inside = list(enumerate(document))
    else:
        return []
    return [place for key, value in inside for place in [(*path, key), *places(value, (*path, key))]]


@given(st.data())
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_document_is_read_or_refused(manifest: str, data: st.DataObject) -> None:
    document = tomllib.loads(manifest)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(document)))
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        change = data.draw(st.sampled_from(["value", "delete", "add"]))
        if change == "delete":
            del inner[path[-1]]
        elif change == "add" and isinstance(inner, dict):
            inner[data.draw(KEYS)] = data.draw(VALUES)
        else:
            inner[path[-1]] = data.draw(VALUES)
        if not places(document):
            break
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "main.py").touch()
        try:
            experiment = parse_experiment(document, Path(folder))
        except CatalogError as error:
            assert str(error).isprintable()
        else:
            for parameter in experiment.parameters:
                assert parameter.checked(parameter.default) is not None


@given(st.integers(0, 5000), st.integers(0, 40), st.text(max_size=20) | st.binary(max_size=20))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_text_is_read_or_refused(manifest: str, at: int, removed: int, added: str | bytes) -> None:
    raw = manifest.encode()
    at %= len(raw)
    added = added.encode("utf-8", "surrogatepass") if isinstance(added, str) else added
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "sweep"
        folder.mkdir()
        (folder / "main.py").touch()
        (folder / "experiment.toml").write_bytes(raw[:at] + added + raw[at + removed :])
        try:
            read_experiment(folder)
        except CatalogError as error:
            assert str(error).isprintable()

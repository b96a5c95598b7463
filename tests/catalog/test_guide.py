"""guide.md: text, steps and live blocks as written; every fault names file, line, key, found and allowed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from labtui.catalog.guide import (
    FACTS,
    Bound,
    Compare,
    Expect,
    Guide,
    Predict,
    Quiz,
    Run,
    Step,
    Text,
    parse_guide,
    read_guide,
)
from labtui.catalog.manifest import CatalogError, Experiment, read_experiment

WHOLE = """\
# Sweep

Why sizes matter.

## Measure the plateau

Small messages pay for starting.

```run
id = "base"
parameters = { rate = 2, dtype = "bfloat16" }
processes = 2
device = "cpu"
link = "1gbit"
```
```predict
of = "base"
result = "busbw"
where = { collective = "all_reduce", size_bytes = 16777216 }
ask = "Which bus bandwidth?"
unit = "GB/s"
```

In between:

```python
## no heading
```

```expect
of = "base"
result = "busbw"
at_least = { times = 0.6, of = "link.ceiling" }
at_most = { times = 1, of = "prediction:bus bandwidth" }
good = '''
As it
should be.'''
low = "Look at the paths."
```
## Forbid peer access ##
```run
id = "p2p_off"
variant = "p2p_off"
```
```compare
runs = ["base", "p2p_off"]
```
```quiz
question = "Which share is bubble?"
number = 0.226
tolerance = 0.005
why = "(p-1)/(m+p-1)"
```
```quiz
question = "Which are true?"
choices = ["a", "b", "c"]
correct = [0, 2]
```
"""


@pytest.fixture
def sweep(write: Callable[..., Path]) -> Experiment:
    return read_experiment(write(guide=WHOLE))


def test_a_whole_guide_is_read_as_written(sweep: Experiment) -> None:
    guide = read_guide(sweep.folder, sweep)

    base = Run("base", 9, "", {"rate": 2.0, "dtype": "bfloat16"}, 2, "cpu", "1gbit")
    off = Run("p2p_off", 41, "p2p_off")
    where = {"collective": "all_reduce", "size_bytes": 16777216}
    measure = Step(
        "Measure the plateau",
        (
            Text("Small messages pay for starting."),
            base,
            Predict("base", "busbw", "Which bus bandwidth?", 16, where, "GB/s"),
            Text("In between:\n\n```python\n## no heading\n```"),
            Expect(
                "base", "busbw", 30, {}, Bound(0.6, "link.ceiling"), Bound(1.0, "prediction:bus bandwidth"),
                "As it\nshould be.", "Look at the paths.",
            ),
        ),
    )  # fmt: skip
    forbid = Step(
        "Forbid peer access",
        (
            off,
            Compare(("base", "p2p_off"), 45),
            Quiz("Which share is bubble?", 48, 0.226, 0.005, why="(p-1)/(m+p-1)"),
            Quiz("Which are true?", 54, choices=("a", "b", "c"), correct=(0, 2)),
        ),
    )
    assert guide == Guide("# Sweep\n\nWhy sizes matter.", (measure, forbid))
    assert guide.runs == (base, off)


def test_line_ends_and_a_byte_order_mark_change_nothing(sweep: Experiment) -> None:
    plain = read_guide(sweep.folder)
    (sweep.folder / "guide.md").write_bytes(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode())
    assert read_guide(sweep.folder) == plain


@pytest.mark.parametrize("text", ["", "\n\n", "Only text.\n", "# Title\n### third level\n##none\n    ## code\n"])
def test_a_guide_may_have_no_steps(text: str) -> None:
    assert parse_guide(text) == Guide(text.strip("\n"), ())


def test_fences_and_comments_keep_what_looks_live() -> None:
    text = dedent("""\
        ## Step
        ````markdown
        ```run
        id = 1
        ```
        ## no step
        ````
        ~~~
        ```quiz
        ~~~
        <!-- ## no step
        ```run
        nothing
        -->
        ``` inline ```run
            ```run
        > ```run
        <b>## bold</b>
        ```sh
        labtui run
          ```
        """)
    assert parse_guide(text) == Guide("", (Step("Step", (Text(text.partition("\n")[2].strip("\n")),)),))


def test_backticks_within_a_line_open_no_fence() -> None:
    assert parse_guide("## S\n```code``` in a line").steps == (Step("S", (Text("```code``` in a line"),)),)


def test_an_indented_or_tilde_block_is_live() -> None:
    text = "## S\n  ~~~~ run  \n  id = 'a'\n ~~~~~\nafter"
    assert parse_guide(text).steps[0].parts == (Run("a", 2), Text("after"))


def test_every_fact_may_bound() -> None:
    for fact in (*FACTS, "prediction:x"):
        block = f'```expect\nof = "a"\nresult = "x"\nat_least = {{ times = 2, of = "{fact}" }}\n```'
        expect = parse_guide(f'## S\n```run\nid = "a"\n```\n{block}').steps[0].parts[1]
        assert isinstance(expect, Expect)
        assert expect.at_least == Bound(2.0, fact)


# What is replaced in the whole guide, by what, then: line, key, found, allowed.
FAULTS = [
    ('id = "base"\n', "", 9, "id", "is missing", "one line of text"),
    ('id = "base"\n', 'id = "Base"\n', 9, "id", '"Base"', "lower-case letters"),
    ('id = "p2p_off"\n', 'id = "base"\n', 41, "id", '"base"', "an id that no block above has"),
    ('id = "base"\n', 'id = "base"\nvariants = "x"\n', 9, "unknown key variants", "closest: variant", "allowed: id"),
    ('variant = "p2p_off"', "variant = 3", 41, "variant", "is 3", "a variant's name"),
    ('variant = "p2p_off"', 'variant = "p2poff"', 41, "variant", '"p2poff"', "a variant of sweep (p2p_off, four)"),
    ("rate = 2", "rat = 2", 9, "unknown key parameters.rat", "closest: rate", "allowed: max_bytes"),
    ("rate = 2", "rate = 3", 9, "parameters.rate", "is 3", "a number from 0.5 to 2"),
    ("processes = 2", "processes = 9", 9, "processes", "is 9", "from 1 to 8"),
    ("processes = 2", "processes = true", 9, "processes", "is true", "a whole number"),
    ('device = "cpu"', 'device = "tpu"', 9, "device", '"tpu"', '"cuda" or "cpu"'),
    ('variant = "p2p_off"', 'variant = "p2p_off"\ndevice = "cpu"', 41, "device", '"cpu"', '"cuda" expected'),
    ('of = "base"', 'of = "later"', 16, "of", '"later"', "the id of a run block above (base)"),
    ('of = "base"', "of = ['base']", 16, "of", "a list of 1", "the id of a run block above"),
    ('ask = "Which bus bandwidth?"', "", 16, "ask", "is missing", "text"),
    ('ask = "Which bus bandwidth?"', 'ask = "a\\u001b"', 16, "ask", "a\\x1b", "text"),
    ('collective = "all_reduce"', "collective = []", 16, "where.collective", "an empty list", "one line of text"),
    ('result = "busbw"', 'results = "busbw"', 16, "unknown key results", "closest: result", "allowed: of, result"),
    ("times = 0.6", "times = -0.6", 30, "at_least.times", "is -0.6", "a number above 0"),
    ('of = "link.ceiling"', 'of = "link.speed"', 30, "at_least.of", '"link.speed"', "link.ceiling, link.measured"),
    ('of = "link.ceiling"', 'of = "prediction:"', 30, "at_least.of", '"prediction:"', "prediction:NAME"),
    ('of = "link.ceiling"', "of = {}", 30, "at_least.of", "a table", "prediction:NAME"),
    ('of = "link.ceiling" }', 'off = "x" }', 30, "unknown key at_least.off", "closest: of", "allowed: times, of"),
    ("{ times = 1, of", '"1" #', 30, "at_most", '"1"', "a number or { times, of }"),
    ("{ times = 1, of", "nan #", 30, "at_most", "is nan", "a number or { times, of }"),
    ('low = "Look', 'lower = "Look', 30, "unknown key lower", "closest: low", "allowed: of"),
    ("at_least = {", "at_lest = {", 30, "unknown key at_lest", "closest: at_least", "allowed: of"),
    ('at_least = { times = 0.6, of = "link.ceiling" }\n', "", 30, "at_least", "is missing", "a bound for low"),
    ('["base", "p2p_off"]', '["base", "no"]', 45, "runs", 'holds "no"', "a run block above (base, p2p_off)"),
    ('["base", "p2p_off"]', '["base", "base"]', 45, "runs", 'holds "base" twice', "2 to 8 different ids"),
    ('["base", "p2p_off"]', '["base"]', 45, "runs", "a list of 1", "2 to 8 different ids"),
    ('["base", "p2p_off"]', "[[]]", 45, "runs", "a list of 1", "2 to 8 different ids"),
    ('["base", "p2p_off"]', "[[], {}]", 45, "runs", "holds an empty list", "2 to 8 different ids"),
    ("number = 0.226", 'number = "0.226"', 48, "number", '"0.226"', "a number"),
    ("number = 0.226\n", "", 48, "number", "is missing", "a number beside tolerance"),
    ("tolerance = 0.005\n", "", 48, "tolerance", "is missing", "a number of at least 0"),
    ("tolerance = 0.005", "tolerance = -1", 48, "tolerance", "is -1", "a number of at least 0"),
    ("tolerance = 0.005", "tolerance = 0\nchoices = ['a']", 48, "choices", "beside number", "either number or"),
    ('question = "Which share is bubble?"', "", 48, "question", "is missing", "text"),
    ('choices = ["a", "b", "c"]\n', "", 54, "number", "is missing", "number or choices"),
    ('["a", "b", "c"]', '["a"]', 54, "choices", "a list of 1", "2 to 9 different texts"),
    ('["a", "b", "c"]', '["a", "b", 3]', 54, "choices", "holds 3", "2 to 9 different texts"),
    ("correct = [0, 2]", "correct = [0, 3]", 54, "correct", "holds 3", "from 0 to 2"),
    ("correct = [0, 2]", "correct = 0", 54, "correct", "is 0", "from 0 to 2"),
    ("correct = [0, 2]", "correct = [true]", 54, "correct", "holds true", "from 0 to 2"),
    ("correct = [0, 2]", "", 54, "correct", "is missing", "from 0 to 2"),
    ("processes = 2", "processes =", 9, "run is no valid TOML", "line 12", ""),
    ("correct = [0, 2]\n```\n", "correct = [0, 2]\n", 54, "the fence ```", "never closed", "its end"),
    ("Why sizes", "```run\nid = 'a'\n```\nWhy sizes", 3, "run", "above all steps", "a ## heading"),
    ("## Forbid peer access ##", "##", 40, "the heading", "is empty", "a step's title"),
    ("Why sizes", "<!-- Why sizes", 3, "the comment <!--", "never closed", "--> expected"),
    ("Why sizes", "Why \x1b[2Jsizes", 3, "the text", "U+001B", "plain Markdown"),
    ("```quiz\n", "```quiz now\n", 48, "a block is called", '"quiz now"', "quiz alone"),
    ("```quiz\n", "```Quiz\n", 48, "a block is called", '"Quiz"', "quiz alone"),
]


@pytest.mark.parametrize(("old", "new", "line", "key", "found", "allowed"), FAULTS)
def test_a_fault_is_told_by_file_line_key_found_and_allowed(
    sweep: Experiment, old: str, new: str, line: int, key: str, found: str, allowed: str
) -> None:
    assert old in WHOLE
    (sweep.folder / "guide.md").write_text(WHOLE.replace(old, new, 1))

    with pytest.raises(CatalogError) as error:
        read_guide(sweep.folder, sweep)

    sentence = str(error.value)
    assert sentence.startswith(f"{sweep.folder / 'guide.md'}, line {line}")
    assert not sentence[len(f"{sweep.folder / 'guide.md'}, line {line}")].isdigit()
    for part in (key, found, allowed):
        assert part in sentence
    assert sentence.isprintable()
    assert len(sentence) < 500


def test_bounds_of_the_same_thing_must_leave_a_range() -> None:
    text = '## S\n```run\nid = "a"\n```\n```expect\nof = "a"\nresult = "x"\nat_least = 2\nat_most = 1\n```'
    with pytest.raises(CatalogError, match=r"line 5, expect: at_most is 1\.0, at_least \(2\.0\) or more expected"):
        parse_guide(text)


def test_without_an_experiment_its_names_are_not_checked() -> None:
    text = '## S\n```run\nid = "a"\nvariant = "any"\nparameters = { x = 1, y = "b" }\nprocesses = 99\n```'
    assert parse_guide(text).runs == (Run("a", 2, "any", {"x": 1, "y": "b"}, 99),)


def test_a_guide_that_is_not_there_is_told(sweep: Experiment) -> None:
    (sweep.folder / "guide.md").unlink()
    with pytest.raises(CatalogError, match=r"guide\.md can't be read \(No such file or directory\)"):
        read_guide(sweep.folder)


def test_a_link_that_leaves_the_folder_is_refused(sweep: Experiment, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("# secret")
    (sweep.folder / "guide.md").unlink()
    (sweep.folder / "guide.md").symlink_to(tmp_path / "secret")
    with pytest.raises(CatalogError, match="within its own folder"):
        read_guide(sweep.folder)


LINES = st.sampled_from(
    [
        *("## Step", "##", "```", "````", "~~~", "```run", "```expect", "```quiz", "```compare", "```predict", "<!--"),
        *('id = "a"', 'of = "a"', 'result = "x"', "at_least = 1", 'runs = ["a", "b"]', 'ask = "?"', 'question = "?"'),
        *("number = 1", "tolerance = 0", "-->", "text", "", "  ```", "correct = [0]", 'choices = ["a", "b"]'),
    ]
)


@given(st.lists(LINES | st.text(max_size=10), max_size=25))
@settings(max_examples=300, deadline=None)
@example(["## S", "```run", 'id = "a"', "```", "```expect", 'of = "a"', 'result = "x"', "at_least = 1", "```"])
def test_any_lines_are_read_or_refused(lines: list[str]) -> None:
    try:
        guide = parse_guide("\n".join(lines))
    except CatalogError as error:
        assert str(error).isprintable()
    else:
        assert all(step.title for step in guide.steps)


@given(st.integers(0, 2000), st.integers(0, 40), st.text(max_size=20) | st.binary(max_size=20))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_guide_is_read_or_refused(sweep: Experiment, at: int, removed: int, added: str | bytes) -> None:
    raw = WHOLE.encode()
    at %= len(raw)
    added = added.encode("utf-8", "surrogatepass") if isinstance(added, str) else added
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "guide.md").write_bytes(raw[:at] + added + raw[at + removed :])
        try:
            read_guide(Path(folder), sweep)
        except CatalogError as error:
            assert str(error).isprintable()


@given(
    st.lists(st.sampled_from(["plain", "- item", "    code", "### deep", "| a | b |", "<div>", "1. x"]), max_size=12)
)
def test_text_is_kept_as_it_is(lines: list[str]) -> None:
    text = "\n".join(lines)
    guide = parse_guide(f"## S\n{text}")
    assert guide.steps == (Step("S", (Text(text),) if text.strip() else ()),)

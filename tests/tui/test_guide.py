"""A guide as Markdown to be read."""

from __future__ import annotations

from labtui.catalog.guide import Bound, Compare, Expect, Guide, Predict, Quiz, Run, Step, Text
from labtui.tui.guide import guide_markdown, literal


def test_live_blocks_become_quotations() -> None:
    parts = (
        Text("Read *this*."),
        Run("base", 1, variant="hooks", parameters={"bucket_mb": 2, "weighted": True}, processes=4, device="cpu"),
        Predict("base", "busbw", "Which bandwidth?", 2, unit="GB/s"),
        Expect("base", "busbw", 3, {"size": 4}, Bound(0.6, "link.ceiling"), Bound(3.0)),
        Compare(("base", "other"), 4),
        Quiz("How many?", 5, choices=("one", "two"), correct=(1,)),
    )
    text = guide_markdown(Guide("# The guide", (Step("First", parts),)), "lab_test")
    assert text.startswith("# The guide\n\n## First\n\nRead *this*.\n")
    assert "`labtui run lab_test --variant hooks --set bucket_mb=2 --set weighted=true --nproc 4 --device cpu`" in text
    assert "> **Guess first**  Which bandwidth? (GB/s)" in text
    assert "> **Expected**  busbw (size 4) at least 0.6 x link.ceiling and at most 3" in text
    assert "the runs base, other" in text
    assert "> 1. one\n> 2. two" in text
    assert "correct" not in text, "the answer is not given away"


def test_any_text_can_be_shown_literally() -> None:
    assert literal("a [b](c) *d* `e` # f") == r"a \[b\]\(c\) \*d\* \`e\` \# f"

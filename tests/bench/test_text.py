"""The text that comes with the project: long enough, reproducible, and cut into batches that ranks can share."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from labtui.bench import text
from labtui.bench.data import grammar
from labtui.theory import models


@pytest.fixture(scope="module")
def words() -> text.Text:
    return text.read()


def test_the_grammar_writes_the_text_that_is_shipped():
    assert grammar.write() == text.FILE.read_text(encoding="utf-8")
    assert text.FILE.stat().st_size >= 200_000
    assert (text.FILE.parent / "README.md").is_file()


def test_every_phrase_of_the_grammar_is_used(words):
    assert len(words.characters) == models.CHARACTERS
    written = text.FILE.read_text(encoding="utf-8").lower()
    for rule, phrases in grammar.RULES.items():
        for phrase in phrases:
            plain = max(phrase.lower().split("{")[0].split("}")[-1].splitlines() or [""], key=len)
            assert plain in written, (rule, phrase)
    assert "{" not in written


def test_numbers_stand_for_characters(words):
    assert words.decode(words.tokens[:6]) == "Day 1."
    assert words.tokens.dtype == torch.int64


def test_targets_are_the_next_characters(words):
    inputs, targets = words.batch(seed=0, step=0, sequences=4, length=32)
    assert inputs.shape == targets.shape == (4, 32)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])
    assert words.decode(inputs[0]) in text.FILE.read_text(encoding="utf-8")


def test_batches_depend_on_seed_and_step_alone(words):
    def starts(seed: int, step: int) -> list[list[int]]:
        return words.batch(seed, step, 8, 16)[0].tolist()

    assert starts(0, 1) == starts(0, 1)
    different = [starts(0, 0), starts(0, 1), starts(1, 0), starts(1, 1)]
    assert all(a != b for index, a in enumerate(different) for b in different[:index])


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="a text of 3 characters has no pieces of 3 and one more"):
        text.Text("ab", torch.tensor([0, 1, 0])).batch(0, 0, 1, 3)

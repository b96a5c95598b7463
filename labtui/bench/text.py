"""Text to train on, character by character: what comes with labtui, as numbers, and batches of it.

A batch is a pure function of seed, step and size. So every rank draws the whole batch and takes its share, and one
process that takes all of it trains on exactly what the ranks together train on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

FILE = Path(__file__).with_name("data") / "harbour.txt"


@dataclass(frozen=True)
class Text:
    """A text, and the characters that occur in it, in order: a character's number is its place among them."""

    characters: str
    tokens: torch.Tensor
    """The whole text as numbers, int64."""

    def decode(self, tokens: torch.Tensor) -> str:
        """The text that these numbers stand for."""
        return "".join(self.characters[int(number)] for number in tokens)

    def batch(self, seed: int, step: int, sequences: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets, each [sequences, length]: pieces of the text, and the same one character further on.

        Raises ValueError where the text is no longer than a piece.
        """
        last = len(self.tokens) - length
        if last < 1:
            raise ValueError(f"a text of {len(self.tokens)} characters has no pieces of {length} and one more")
        # Step 1 of seed 0 must not be step 0 of seed 1.
        chance = torch.Generator().manual_seed(seed * 1_000_003 + step)
        starts = torch.randint(last, (sequences, 1), generator=chance)
        pieces = self.tokens[starts + torch.arange(length + 1)]
        return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


def read(file: Path = FILE) -> Text:
    """The text in a file, by default the one that comes with labtui."""
    text = file.read_text(encoding="utf-8")
    characters = "".join(sorted(set(text)))
    number = {character: place for place, character in enumerate(characters)}
    return Text(characters, torch.tensor([number[character] for character in text]))

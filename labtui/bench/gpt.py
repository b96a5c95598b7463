"""A GPT of the usual shape, short enough to be read: what experiments train when they want a real model.

Its parts are apart (`embed`, `blocks`, `head`), so that an experiment can shard, split or pipeline them. Knows nothing
of ranks. Shapes: B sequences, T tokens, h = width, V = vocabulary.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from labtui.theory.models import GptShape


class Attention(nn.Module):  # type: ignore[misc]
    """Causal self-attention over all heads at once."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.queries_keys_values = nn.Linear(shape.width, 3 * shape.width)
        self.projection = nn.Linear(shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [B, T, h] -> [B, T, h]
        heads = self.queries_keys_values(x).unflatten(-1, (3, self.heads, -1))  # [B, T, 3, heads, h / heads]
        queries, keys, values = heads.transpose(1, 3).unbind(2)  # each [B, heads, T, h / heads]
        found = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        return self.projection(found.transpose(1, 2).flatten(2))


class Block(nn.Module):  # type: ignore[misc]
    """Attention, then an MLP on each token; each adds to what came in, and sees it normalised (pre-norm)."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.norm_mlp = nn.LayerNorm(shape.width)
        self.widen = nn.Linear(shape.width, 4 * shape.width)
        self.narrow = nn.Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [B, T, h] -> [B, T, h]
        x = x + self.attention(self.norm_attention(x))
        return x + self.narrow(F.gelu(self.widen(self.norm_mlp(x))))


class Embedding(nn.Module):  # type: ignore[misc]
    """Tokens become vectors, and so do their places."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:  # [B, T] -> [B, T, h]
        return self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))


class Head(nn.Module):  # type: ignore[misc]
    """From vectors to a score for each token of the vocabulary."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.width)
        self.output = nn.Linear(shape.width, shape.vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # [B, T, h] -> [B, T, V]
        return self.output(self.norm(x))


class Gpt(nn.Module):  # type: ignore[misc]
    """The whole model. Its parameters are registered in the order in which forward uses them."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = Embedding(shape)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.head = Head(shape)
        if shape.tied:
            self.head.output.weight = self.embed.token.weight
        self._initialise()

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        """Scores [B, T, V]; with targets [B, T] the mean cross-entropy over all tokens instead, in nats."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        scores = self.head(x)
        if targets is None:
            return scores
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    def _initialise(self) -> None:
        """As GPT-2: normal with 0.02, and smaller where many layers add to one sum."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue  # norms and biases
            adds = name.endswith(("projection.weight", "narrow.weight"))
            nn.init.normal_(parameter, std=0.02 / (2 * self.shape.layers) ** 0.5 if adds else 0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)


def make(shape: GptShape, seed: int, device: torch.device | str = "cpu") -> Gpt:
    """A model with the weights that belong to this seed: the same on every rank and in each call."""
    torch.manual_seed(seed)
    with torch.device(device):
        return Gpt(shape)


def parameters(model: nn.Module) -> int:
    """How many parameters there are, counted. A tensor that is used twice counts once."""
    return sum(parameter.numel() for parameter in model.parameters())

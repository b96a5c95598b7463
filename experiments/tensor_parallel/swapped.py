"""The MLP cut the other way round, the first matrix by rows and the second by columns: expensive, or wrong.

A matrix cut by rows takes some of the features on each rank and gives a summand of all columns. GELU comes next, and
GELU(a + b) is not GELU(a) + GELU(b). So the summands must be added up in the middle, where they are four times as wide.
"""

from layers import Enter, Leave
from torch import nn
from torch.nn import functional as F


class SwappedMlp(nn.Module):
    """`exchanged`: with the exchange in the middle, or as if it could be left out."""

    def __init__(self, mlp, rank, ranks, exchanged):
        super().__init__()
        self.widen, self.narrow = mlp.widen, mlp.narrow
        self.rank, self.ranks, self.exchanged = rank, ranks, exchanged

    def forward(self, x):
        features = Enter.apply(x).chunk(self.ranks, dim=-1)[self.rank]
        hidden = F.linear(features, self.widen.weight)  # of all columns, but a summand of them
        if self.exchanged:
            hidden = Enter.apply(Leave.apply(hidden) + self.widen.bias)
        else:
            hidden = hidden + self.widen.bias
        own = self.narrow(F.gelu(hidden))  # some of the output's features
        before, after = self.rank * own.shape[-1], (self.ranks - 1 - self.rank) * own.shape[-1]
        return Leave.apply(F.pad(own, (before, after)))  # where the others are, zeros: the sum has them all

"""What training keeps in memory: parameters, gradients, optimizer state, activations, rank by rank.

Numbers in, numbers out: nothing here measures, builds a model or knows a machine. Sizes are bytes.
"""

from __future__ import annotations

from labtui.theory.memory.activations import RECOMPUTE, activation_bytes_per_layer, layers_in_flight
from labtui.theory.memory.state import FP32_ADAM, MIXED_ADAM, STAGES, Recipe, State, recipe, state_bytes

__all__ = [
    "FP32_ADAM",
    "MIXED_ADAM",
    "RECOMPUTE",
    "STAGES",
    "Recipe",
    "State",
    "activation_bytes_per_layer",
    "layers_in_flight",
    "recipe",
    "state_bytes",
]

"""A step's memory by category: what can be counted by hand is found, to the byte, and an old torch is turned away."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

# In a process of its own: loading torch's tracker takes seconds, and leaves hooks behind.
SCRIPT = """
import sys
import torch
from torch import nn
from labtui.bench import tracker

model = nn.Sequential(nn.Linear(100, 300, bias=False), nn.ReLU(), nn.Linear(300, 100, bias=False))
optimizer = torch.optim.Adam(model.parameters(), foreach=False)
x = torch.zeros(7, 100)

def step():
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()

step()
found = tracker.track(step, model, optimizer, [x])
weights = 4 * 2 * 100 * 300
assert found.after == {
    "parameters": weights, "buffers": 0, "gradients": weights, "activations": 0, "temporary": 0,
    "optimizer": 2 * weights + 2 * 4, "inputs": 4 * 7 * 100, "total": 4 * weights + 8 + 4 * 7 * 100,
}, found.after
# Backward needs what the ReLU made, and the result is there; gradients of the step before are gone.
assert found.forward["activations"] == 4 * 7 * (300 + 100), found.forward
assert found.forward["gradients"] == 0
assert found.peak["total"] >= max(found.forward["total"], found.after["total"])
assert found.peak["total"] == sum(size for name, size in found.peak.items() if name != "total")

try:
    tracker.track(lambda: None, model, optimizer, [x])
except RuntimeError as error:
    assert "never called the model" in str(error)
else:
    raise AssertionError("a step that does nothing was tracked")

sys.modules["torch.distributed._tools.fsdp2_mem_tracker"] = None  # as an older torch has it
tracker.refuse_old_torch()
"""


def test_a_plain_models_step():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, timeout=100)
    assert done.returncode == 2, done.stderr
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("torch ")]
    assert said.endswith("has no memory tracker for FSDP2: 2.6 or newer is needed")

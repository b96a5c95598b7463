"""What a rank holds, by kind: each storage once, nothing hidden, and the counting itself holds on to nothing."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("torch")

import torch

from labtui.bench import held

KB = 250  # elements of float32


def test_views_share_a_storage_which_counts_once_and_whole():
    storage = torch.zeros(3 * KB)
    views = [storage[:KB], storage[KB:].view(2, KB)]
    assert held.by_kind({"parameters": views}) == {"parameters": 3000}
    # Under two kinds it counts for the first.
    assert held.by_kind({"parameters": views[:1], "gradients": [views[1], torch.zeros(KB)]}) == {
        "parameters": 3000,
        "gradients": 1000,
    }
    assert held.by_kind({"gradients": []}) == {"gradients": 0}


class Step:
    """A weight, and in each step an activation, then a gradient; `leak` keeps what should have gone."""

    def __init__(self, leak: bool = False) -> None:
        self.weight, self.activation, self.gradient = torch.ones(KB), None, None
        self.leak, self.leaked = leak, []

    def named(self):
        return {
            "parameters": [self.weight],
            "gradients": [] if self.gradient is None else [self.gradient],
            "activations": [] if self.activation is None else [self.activation],
        }

    def __call__(self, look, batch) -> None:
        self.gradient = None
        self.activation = batch * torch.ones(4 * KB)
        look("forward ends")
        if self.leak:
            self.leaked.append(self.activation)
        self.activation = None
        self.gradient = self.weight * 2
        look("backward ends")


@pytest.mark.parametrize("leak", [False, True])
def test_a_step_is_counted_at_its_moments_and_what_nobody_names_shows(leak):
    step, batch = Step(leak), torch.ones(4 * KB)
    step(lambda moment: None, batch)  # a gradient is there from before, and goes in the step that is counted
    step.leaked.clear()
    found = held.during(lambda look: step(look, batch), step.named, besides=[batch])
    forward, backward = found.at["forward ends"], found.at["backward ends"]
    assert forward == {"parameters": 1000, "gradients": 0, "activations": 4000, "other": 0}
    assert backward == {"parameters": 1000, "gradients": 1000, "activations": 0, "other": 4000 * leak}
    assert found.total("backward ends") == 2000 + 4000 * leak
    assert found.peak == 1000 + 4000 + 4000  # with the ones by which the batch was multiplied; the batch counts nowhere


def test_what_another_thread_lets_go_of_a_moment_later_is_no_leak():
    """gloo's threads hold a collective's tensors a little longer than its caller waits."""
    step = Step()
    release = threading.Event()

    def keep(tensors: list[torch.Tensor]) -> None:
        release.wait(5)
        tensors.clear()

    def one(look) -> None:
        late = threading.Thread(target=keep, args=([torch.ones(KB)],))
        late.start()
        threading.Timer(0.01, release.set).start()
        look("backward ends")
        late.join()

    assert held.during(one, step.named).at["backward ends"]["other"] == 0

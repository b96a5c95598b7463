"""What a GPU holds: shares add up to the whole, and each cut frees what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labtui.theory import known_models, memory
from labtui.theory.memory.adapters import lora_parameters
from labtui.theory.memory.layout import Layout, rank_parameters
from labtui.theory.memory.rank import Training, on_rank

NAMES = ("baby", "gpt2-xl", "gpt3-175b", "llama-7b", "llama3-70b", "mixtral-8x7b", "deepseek-v3")
LLAMA = known_models.known("llama-7b").shape


def training(name: str = "llama-7b", **changes: object) -> Training:
    shape = known_models.known(name).shape
    return Training(known_models.parameters(shape), shape=shape, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_one_gpu_holds_the_whole_model(name: str) -> None:
    shape = known_models.known(name).shape
    assert rank_parameters(shape, Layout()).total == known_models.parameters(shape)


@given(
    name=st.sampled_from(("baby", "llama-7b", "llama-70b")),
    tensor=st.sampled_from((1, 2)),
    pipeline=st.sampled_from((1, 2)),
    data=st.integers(1, 64),
)
def test_the_shares_of_all_ranks_add_up(name: str, tensor: int, pipeline: int, data: int) -> None:
    shape = known_models.known(name).shape
    layout = Layout(data, tensor, pipeline)
    held = tensor * sum(rank_parameters(shape, layout, stage).total for stage in range(pipeline))
    whole = known_models.parameters(shape)
    # Norms, some biases and learnt positions are on every tensor-parallel rank.
    assert whole <= held <= whole * 1.03
    if tensor == 1:
        assert held == whole


def test_a_tied_embedding_is_copied_to_the_last_stage() -> None:
    shape = known_models.known("gpt2").shape
    layout = Layout(pipeline=2)
    held = sum(rank_parameters(shape, layout, stage).total for stage in (0, 1))
    assert held == known_models.parameters(shape) + shape.vocabulary * shape.width


def test_experts_are_shared_by_fewer_ranks() -> None:
    mixture = training("mixtral-8x7b", layout=Layout(data=16, expert=8))
    held = rank_parameters(mixture.shape, mixture.layout)
    assert held.experts == 32 * 3 * 4096 * 14336  # one expert of each layer
    ours = on_rank(mixture, "zero3").state.parameters
    assert ours == pytest.approx(2 * (held.dense / 16 + held.experts / 2))


def test_the_issues_example() -> None:
    asked = training(layout=Layout(data=4), sequence=4096, micro_batch=1, recompute="full")
    found = on_rank(asked, "zero3")
    psi = 6_738_415_616
    assert (found.state.parameters, found.state.gradients, found.state.optimizer) == (psi / 2, psi / 2, psi * 3)
    assert found.activations == 32 * 2 * 4096 * 4096
    assert found.total == 4 * psi + found.activations
    assert found.needed > found.total


def test_the_fullest_stage_counts() -> None:
    """With everything recomputed and 128,256 words, logits outweigh what the first stage keeps in flight."""
    few = training("llama3-8b", layout=Layout(pipeline=8), sequence=8192, micro_batch=1, recompute="full")
    few = replace(few, fused_attention=True)
    assert on_rank(few, "ddp").stage == 7
    many = replace(few, recompute="none")
    assert on_rank(many, "ddp").stage == 0


def test_offload_moves_and_frees() -> None:
    asked = training(layout=Layout(data=4))
    psi = asked.parameters
    kept = on_rank(replace(asked, offload="optimizer"), "zero2")
    assert kept.state.total == 2 * psi  # DeepSpeed: 2P with offload
    assert kept.host.total == (4 + 12) * psi / 4  # its 16 bytes, shared by 4
    everything = on_rank(replace(asked, offload="all"), "zero3")
    assert everything.state.total == 0 and everything.host.total == 18 * psi / 4
    assert on_rank(replace(asked, offload="all"), "ddp").state.parameters == 2 * psi  # only ZeRO-3 can part with them


def test_frozen_parameters_have_neither_gradients_nor_state() -> None:
    adapters = lora_parameters(LLAMA, 8)
    found = on_rank(training(adapters=adapters), "ddp")
    assert found.state.parameters == 2 * (6_738_415_616 + adapters)
    assert (found.state.gradients, found.state.optimizer) == (2 * adapters, 12 * adapters)


def test_an_average_of_the_weights_on_gpu_or_host() -> None:
    asked = training(layout=Layout(data=4))
    psi = asked.parameters
    plain, gpu, cpu = (on_rank(replace(asked, ema=ema), "zero1") for ema in ("none", "gpu", "cpu"))
    assert gpu.total - plain.total == 4 * psi / 4 == cpu.host.ema  # shared like the optimizer's averages
    assert cpu.total == plain.total
    assert on_rank(replace(asked, ema="gpu"), "ddp").ema == 4 * psi


def test_what_can_not_be_is_refused() -> None:
    for layout, words in (
        ({"pipeline": 5}, "32 layers can't be cut into 5 pipeline stages evenly: 5 must divide them"),
        ({"tensor": 3}, "32 heads can't be cut among 3"),
        ({"data": 8, "expert": 8}, "0 experts can't be cut into 8 groups"),
    ):
        with pytest.raises(ValueError, match=words):
            training(layout=Layout(**layout))
    with pytest.raises(ValueError, match="need data parallelism that 8 divides"):
        Layout(data=4, expert=8)
    with pytest.raises(ValueError, match="sequence parallelism goes with tensor"):
        Layout(sequence_parallel=True)
    with pytest.raises(ValueError, match="more than 1 stage"):
        Layout(interleave=2)
    with pytest.raises(ValueError, match="offload is 'disk'"):
        training(offload="disk")
    with pytest.raises(ValueError, match="adapters go on q, k, v, o, mlp, not on w"):
        lora_parameters(LLAMA, 8, ("w",))
    with pytest.raises(ValueError, match="rank is at least 1"):
        lora_parameters(LLAMA, 0)
    with pytest.raises(ValueError, match="need the model's shape"):
        on_rank(Training(1e9, sequence=1, micro_batch=1), "ddp")
    assert memory.STAGES[0] == "ddp"

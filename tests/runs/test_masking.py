"""What of an environment and a command is written down."""

from __future__ import annotations

import pytest

from labtui.runs.masking import MASK, is_secret, mask_command, recorded


@pytest.mark.parametrize(
    "name", ["WANDB_API_KEY", "HF_TOKEN", "--hub-token", "AWS_SECRET_ACCESS_KEY", "password", "--auth"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["NCCL_DEBUG", "--tokenizer", "--max-tokens", "KEYBOARD", "--monkey", "PWDX"])
def test_other_names(name: str) -> None:
    assert not is_secret(name)


def test_only_the_allow_list_is_recorded() -> None:
    environ = {
        "NCCL_DEBUG": "INFO",
        "HOME": "/h",
        "OMP_NUM_THREADS": "4",
        "TORCH_API_KEY": "s",
        "CUDA_VISIBLE_DEVICES": "",
    }
    assert recorded(environ) == {
        "CUDA_VISIBLE_DEVICES": "", "NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "4", "TORCH_API_KEY": MASK,
    }  # fmt: skip


def test_a_commands_secrets_are_masked_in_every_form() -> None:
    command = ["torchrun", "t.py", "--api-key", "X", "--token=Y", "password=Z", "--lr", "0.1", "--auth", "--flag", "v"]
    assert mask_command(command) == (
        "torchrun", "t.py", "--api-key", MASK, f"--token={MASK}", f"password={MASK}",
        "--lr", "0.1", "--auth", "--flag", "v",
    )  # fmt: skip

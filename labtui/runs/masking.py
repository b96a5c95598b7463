"""Which of the environment is recorded, and what in it, or in a command, is masked. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

RECORDED = ("NCCL_", "RCCL_", "GLOO_", "TORCH_", "CUDA_", "OMP_")
"""Only variables with these beginnings are recorded, beside what the user and the variant set for the run."""

MASK = "***"

_IN_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@")
"""A password in an address: https://ann:secret@host/."""
_SECRET = re.compile(
    r"(?i)(^|[_\-.])(api[_\-]?key|key|token|secret|passw(or)?d|passwd|pwd|credentials?|auth)($|[_\-.=])"
)


def is_secret(name: str) -> bool:
    """Whether a variable or option of this name looks as if it held a secret (WANDB_API_KEY, --hub-token)."""
    return _SECRET.search(name) is not None


def is_masked(text: str) -> bool:
    """Whether something in it was masked: then it is no value to go on with."""
    return MASK in text


def _mask_text(text: str) -> str:
    return _IN_URL.sub(rf"\g<1>{MASK}@", text)


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The same variables, the values of secrets masked."""
    return {name: MASK if is_secret(name) else _mask_text(value) for name, value in environment.items()}


def recorded(environ: Mapping[str, str]) -> dict[str, str]:
    """What the allow-list picks out of an environment, masked."""
    return mask_environment({name: value for name, value in sorted(environ.items()) if name.startswith(RECORDED)})


def mask_command(command: Sequence[str]) -> tuple[str, ...]:
    """The command with what looks like a secret masked: --token X, --token=X, token=X, a password in an address."""
    masked: list[str] = []
    hide_next = False
    for argument in command:
        name, equals, _ = argument.partition("=")
        if hide_next and not argument.startswith("-"):
            masked.append(MASK)
            hide_next = False
        elif equals and is_secret(name):
            masked.append(f"{name}={MASK}")
            hide_next = False
        else:
            masked.append(_mask_text(argument))
            hide_next = argument.startswith("-") and not equals and is_secret(argument)
    return tuple(masked)

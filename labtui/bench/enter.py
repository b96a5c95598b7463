"""A rank's way onto its shaped link: torchrun starts

    python -m labtui.bench.enter SCRIPT ARGUMENTS ...

which enters the namespace that LABTUI_LINK_RANKS has for this rank and then becomes SCRIPT, same pid. So this works for
any script, and no socket of torch's is older than the link. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import NoReturn

_CLONE_NEWNET = 0x40000000
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_LOWER = 47, 3
_CAPABILITIES = (12, 21)  # CAP_NET_ADMIN, CAP_SYS_ADMIN


def enter(namespace: str) -> None:
    """Moves this process into the network namespace at that path. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)
    # Capabilities in the link's user namespace, which the way here needed; a script should have none.
    for capability in _CAPABILITIES:
        libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_LOWER, capability, 0, 0)


def main(arguments: list[str]) -> NoReturn:
    """Becomes the script, or ends with a sentence."""
    try:
        ranks = json.loads(os.environ["LABTUI_LINK_RANKS"])
        enter(ranks[int(os.environ["LOCAL_RANK"])]["namespace"])
    except KeyError as error:
        sys.exit(f"labtui.bench.enter is for ranks on a shaped link: {error.args[0]} is not set")
    except OSError as error:
        sys.exit(f"the shaped link can't be entered: {error.strerror}")
    # torchrun has them meet where it is itself, which can't be reached from here; rank 0 serves the store instead.
    os.environ["MASTER_ADDR"] = ranks[0]["address"]
    os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    os.execv(sys.executable, [sys.executable, "-u", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])

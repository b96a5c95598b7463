"""The same for what PyTorch's side tells: watchdog, launcher, store, gloo. Pure."""

from __future__ import annotations

from labtui.machine.nccl.causes import Sentence, found_in
from labtui.machine.nccl.outline import Outline, Warned

_KILLED = "look in dmesg for 'Out of memory' and give the job more memory, or load the model once per node"


def _watchdog(outline: Outline, warned: Warned) -> str:
    torch = outline.facts.torch
    if not torch.timeouts:
        if warned.cause == "gloo_timeout":
            milliseconds = found_in(r"waiting (\d+)ms", warned)
            long = f" for {int(milliseconds) / 1000:g} s" if milliseconds else ""
            return (
                f"A rank waited{long} in a collective over gloo and another one never came; look for the rank that "
                "crashed or is still busy, then at uneven data between ranks."
            )
        return (
            "PyTorch's watchdog saw no progress in the NCCL collectives: a rank never joined, or a CUDA call hangs; "
            "look at the ranks that printed nothing and at their stacks (TORCH_NCCL_DUMP_ON_TIMEOUT=1, "
            "TORCH_NCCL_TRACE_BUFFER_SIZE=2000)."
        )
    groups = sorted(torch.timeouts.items())
    long = f" for {torch.timeout_ms / 1000:g} s" if torch.timeout_ms else ""
    if len(groups) > 1:
        said = "; ".join(f"{_ranks(ranks)} in {_work(key)}" for key, ranks in groups[:3])
        return (
            f"The ranks waited{long} in different collectives ({said}), so they ran apart: one skipped a call or made "
            "another; look for branches that not all ranks take, and for uneven data."
        )
    key, ranks = groups[0]
    return (
        f"{_ranks(ranks).capitalize()} waited{long} in {_work(key)} and another rank never joined it (it crashed, ran "
        "out of memory, or is still busy with validation or saving); look at the ranks that printed nothing, then at "
        "uneven data or a too short timeout."
    )


def _work(key: tuple[int, str]) -> str:
    number, name = key
    return f"{name.strip('_').lower()}{f' number {number}' if number >= 0 else ''}"


def _ranks(ranks: set[int]) -> str:
    listed = [str(rank) for rank in sorted(ranks)]
    if len(listed) == 1:
        return f"rank {listed[0]}"
    shown = listed if len(listed) <= 8 else [*listed[:7], f"{len(listed) - 7} more"]
    return f"ranks {', '.join(shown[:-1])} and {shown[-1]}"


def _who(outline: Outline, code: int) -> str:
    torch = outline.facts.torch
    if torch.root is not None and torch.root[1] == code:
        return f"Rank {torch.root[0]}"
    local = next((rank for rank, exit_code in torch.children.items() if exit_code == code), None)
    return f"Local rank {local}" if local is not None else "A rank"


def _sigkill(outline: Outline, warned: Warned) -> str:
    return (
        f"{_who(outline, -9)} was killed from outside (SIGKILL), nearly always because the host or the container ran "
        f"out of memory while it loaded weights or data; {_KILLED}."
    )


def _sigbus(outline: Outline, warned: Warned) -> str:
    return (
        f"{_who(outline, -7)} was ended by a bus error (signal 7), which mostly means that /dev/shm is full (data "
        "loader workers, NCCL); start the container with a larger --shm-size or --ipc=host, or use fewer workers."
    )


def _child(outline: Outline, warned: Warned) -> str:
    torch = outline.facts.torch
    code = torch.root[1] if torch.root else next(iter(torch.children.values()), None)
    who = f"rank {torch.root[0]}" if torch.root else "a rank"
    return (
        f"torchrun ended the job because {who} failed{f' with exit code {code}' if code is not None else ''}, and the "
        "reason stands in that rank's own output; look at its traceback further up (torchrun --log-dir or --tee 3 "
        "keeps it), the others were only told to stop."
    )


def _in_use(outline: Outline, warned: Warned) -> str:
    port = outline.facts.torch.port
    return (
        f"Port {port or 'of the master'} is already taken, usually by another torchrun job or a process left over on "
        "the same machine; stop that process, or choose another port (--master-port, or --rdzv-endpoint=localhost:0)."
    )


def _rendezvous(outline: Outline, warned: Warned) -> str:
    torch = outline.facts.torch
    if torch.joined:
        joined, wanted = torch.joined
        return (
            f"Only {joined} of {wanted} processes joined before the store's time was up: the others did not start or "
            "cannot reach the master's address and port; start all nodes with the same --nnodes and endpoint, and "
            "check the firewall between them."
        )
    if warned.cause == "rendezvous_closed":
        return (
            "The rendezvous was closed before this node came: the job had already ended or failed on another node; "
            "start all nodes afresh with a new --rdzv-id, and look at the first node's own error."
        )
    return (
        "torchrun's rendezvous failed: not all nodes met in time at the endpoint; check that every node names the "
        "same --rdzv-id, --nnodes and --rdzv-endpoint, and that its port can be reached from all."
    )


def _store(outline: Outline, warned: Warned) -> str:
    where = outline.facts.torch.endpoint or "the master"
    why = {
        "socket_no_route": "there is no route to it",
        "socket_connect_refused": "nobody listens there (yet, or any more)",
        "socket_timeout": "it did not answer in time",
    }.get(warned.kind, "the connection failed")
    return (
        f"A process could not reach PyTorch's store at {where}: {why}; check that the first node runs, that "
        "MASTER_ADDR and MASTER_PORT name it as the others can reach it, and that no firewall is between them."
    )


def _store_closed(outline: Outline, warned: Warned) -> str:
    return (
        "The connection to PyTorch's store broke, because the process that holds it (rank 0, or the launcher) has "
        "ended; this only follows: look for that process's own error."
    )


def _gloo(outline: Outline, warned: Warned) -> str:
    return (
        "Gloo (the CPU side of torch.distributed) could not connect the ranks to each other, even if the text says "
        "'no error': usually each host resolves its own name to 127.0.0.1 or picks an interface that others cannot "
        "reach; set GLOO_SOCKET_IFNAME (and NCCL_SOCKET_IFNAME) to the right one on every node."
    )


SENTENCES: dict[str, Sentence] = {
    "watchdog": _watchdog,
    "watchdog_stuck": _watchdog,
    "gloo_timeout": _watchdog,
    "sigkill": _sigkill,
    "sigbus": _sigbus,
    "child": _child,
    "address_in_use": _in_use,
    "joined": _rendezvous,
    "rendezvous": _rendezvous,
    "rendezvous_closed": _rendezvous,
    "store_socket_no_route": _store,
    "store_socket_connect_refused": _store,
    "store_socket_timeout": _store,
    "store_socket_connect_failed": _store,
    "store_closed": _store_closed,
    "gloo": _gloo,
}

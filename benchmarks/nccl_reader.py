"""The reader of NCCL logs. Wanted: 30 MB/s of log on one core, and memory that does not grow with the log.

    .venv/bin/python benchmarks/nccl_reader.py [MEGABYTES]

Makes logs of that size (default 40 MB) in memory and reads each as the command line does, in bites of 1 MiB: a job
of 64 ranks that builds one communicator after another; the same with a time before each line; training output without
a line of NCCL's; both in turns; the texts of the corpus (short, and a third of them failures) again and again.
Prints MB/s, the best of five, beside the yardstick, and what the reader holds after a log and after it came twice.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from itertools import cycle, islice
from pathlib import Path

from yardstick import measure

from labtui.machine.nccl import Reader

BITE = 1 << 20
ROUNDS = 5
RANKS, GPUS, CHANNELS = 64, 8, 16
CORPUS = Path(__file__).resolve().parents[1] / "tests" / "data" / "nccl"


def a_job(megabytes: int) -> bytes:
    """What 64 ranks on 8 nodes print while they build communicators of all ranks and of few, line by line mixed."""
    chance = random.Random(1)
    lines: list[bytes] = []
    size = 0
    for number in range(1 << 20):
        ranks = RANKS if number % 4 == 0 else GPUS
        begun: list[list[str]] = [_of_a_rank(rank, ranks, number) for rank in range(ranks)]
        while begun:
            own = chance.choice(begun)
            lines.append((own.pop(0) + "\n").encode())
            size += len(lines[-1])
            if not own:
                begun.remove(own)
        if size >= megabytes * 1_000_000:
            break
    return b"".join(lines)


def _of_a_rank(rank: int, ranks: int, number: int) -> list[str]:
    host, device = f"gpu-node-{rank // GPUS:02}", rank % GPUS
    head = f"{host}:{4000 + rank}:{5000 + rank + number} [{device}] NCCL INFO"
    name = f"ncclCommInitRankConfig comm 0x{0x55D0C8EF3000 + 4096 * number + rank:x} rank {rank} nranks {ranks}"
    bus = f"cudaDev {device} nvmlDev {device} busId {0x18000 + 0x10000 * device:x} commId 0x{number:016x}"
    lines = [f"{head} Using network IB", f"{head} {name} {bus} - Init START"]
    trees = " ".join(f"[{channel}] {(rank + 1) % ranks}/-1/-1->{rank}->{rank - 1}" for channel in range(CHANNELS))
    lines += [f"{head} Trees {trees}", f"{head} P2P Chunksize set to 131072"]
    for channel in range(CHANNELS):
        following = (rank + 1) % ranks
        link = f"Channel {channel:02}/0 : {rank}[{device}] -> {following}[{following % GPUS}]"
        if following // GPUS == rank // GPUS:
            lines.append(f"{head} {link} via P2P/CUMEM/read")
        else:
            lines.append(f"{head} {link} [send] via NET/IB/{device}/GDRDMA")
    lines.append(f"{head} Connected all rings, use ring PXN 0 GDR 1")
    lines.append(f"{head} {CHANNELS} coll channels, 0 collnet channels, 0 nvls channels, 16 p2p channels")
    return [*lines, f"{head} {name} {bus} - Init COMPLETE"]


def training_output(megabytes: int) -> bytes:
    """What a training loop prints, progress bars and warnings of its libraries included."""
    chance = random.Random(2)
    lines = []
    for step in range(1 << 14):
        numbers = f"loss={chance.random() * 5:.4f} lr={chance.random() / 1000:.3e} grad_norm={chance.random():.3f}"
        lines.append(
            f"2026-11-29 12:{step // 60 % 60:02}:{step % 60:02},{step % 1000:03} INFO trainer: step {step} {numbers}"
        )
        if step % 20 == 0:
            lines.append(f"Epoch 1: {step % 100}%|#####     | {step}/16384 [00:12<00:30, 31.4it/s]\r" * 3)
        if step % 500 == 0:
            lines.append(
                "UserWarning: The given buffer is not writable. You may want to copy the array to protect its data."
            )
    text = "\n".join(lines).encode() + b"\n"
    return text * (megabytes * 1_000_000 // len(text) + 1)


def stamped(log: bytes) -> bytes:
    """The same log with a time before each line, as collectors add it."""
    lines = log.splitlines(keepends=True)
    return b"".join(
        b"2026-11-29T12:00:%02d.%06dZ " % (place // 1000 % 60, place) + line for place, line in enumerate(lines)
    )


def in_turns(one: bytes, other: bytes) -> bytes:
    """A line of this, a line of that."""
    return b"".join(line for pair in zip(one.splitlines(True), other.splitlines(True), strict=False) for line in pair)


def read(log: bytes) -> Reader:
    """As `labtui nccl` does it."""
    reader = Reader()
    for place in range(0, len(log), BITE):
        reader.feed(log[place : place + BITE])
    return reader


def held(log: bytes, times: int) -> float:
    """MB that the reader holds after the log has come so many times."""
    tracemalloc.start()
    reader = Reader()
    for _ in range(times):
        for place in range(0, len(log), BITE):
            reader.feed(log[place : place + BITE])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reader.report().kind == "nccl"
    return kept / 1e6


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    job, training = a_job(megabytes), training_output(megabytes)
    texts = b"".join(path.read_bytes() for path in sorted(CORPUS.glob("*.log")))
    logs = {
        "a job of 64 ranks": job,
        "the same, a time before each line": stamped(job),
        "training output": training,
        "both in turns": in_turns(job, training),
        "the corpus, again and again": b"".join(islice(cycle([texts]), megabytes * 1_000_000 // len(texts) + 1)),
    }
    before = measure()
    print(before)
    for name, log in logs.items():
        rounds = []
        for _ in range(ROUNDS):
            yardstick = measure(3)
            begun = time.perf_counter()
            report = read(log).report()
            rounds.append((time.perf_counter() - begun, yardstick))
        seconds, yardstick = min(rounds, key=lambda one: one[0])
        rate = len(log) / seconds / 1e6
        beside = f"with the yardstick at {yardstick.median * 1e3:.1f} ms just before"
        print(f"{name}: {rate:.0f} MB/s (wanted: 30) {beside}; {len(report.links)} links")
    print(f"held after {len(job) / 1e6:.0f} MB: {held(job, 1):.1f} MB; after the same twice: {held(job, 2):.1f} MB")
    print(before.beside(measure()))


if __name__ == "__main__":
    main()

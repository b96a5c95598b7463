"""A ring all-reduce by hand: how N ranks add up their tensors with messages to a neighbour, and why it is that cheap.

Cut the tensor into N chunks. In each of N-1 steps every rank sends one chunk to the next rank, receives another from
the rank before and adds it to its own. Then each rank holds one finished chunk, and N-1 more steps hand those round.
Beside it: the naive way, everything to rank 0 and back, and the library's own all-reduce.

Run it with `labtui run ring_allreduce`, or bare: `torchrun --nproc-per-node 4 experiments/ring_allreduce/main.py`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
import math
import statistics
from functools import partial
from itertools import pairwise

import torch
import torch.distributed as dist
from torch import nn

from labtui.bench import clock, collectives, exact, expected, hardware, p2p, parameters, report, timeline, wire
from labtui.theory import collectives as theory

# ---- The ways. Each sums a flat tensor over all ranks, in place; those by hand return how many bytes this rank sent.


def ring_all_reduce(tensor, rank, ranks, piece_bytes):
    chunks = cut(tensor, ranks)
    # A chunk travels in pieces: while one is added and passed on, the next are still arriving.
    parts = max(1, math.ceil(chunks[0].nbytes / piece_bytes))
    pieces = [cut(chunk, parts) for chunk in chunks]
    inbox = cut(torch.empty_like(chunks[0]), parts)

    def begin(step, part):
        mine = pieces[step.receive][part]
        # First half: what comes is added to what I have. Second half: what comes is finished and replaces it.
        landing = inbox[part][: len(mine)] if step.add else mine
        outgoing, after, before = pieces[step.send][part], (rank + 1) % ranks, (rank - 1) % ranks
        return p2p.exchange(outgoing, after, landing, before), mine, landing

    steps = theory.ring_steps(rank, ranks)
    under_way = [begin(step, part) for step in steps[:1] for part in range(parts)]
    sent = 0
    for number, (step, following) in enumerate(pairwise([*steps, None]), 1):
        with timeline.span("communication", f"{'reduce-scatter' if step.add else 'all-gather'}, step {number}"):
            for part, (transfer, mine, landing) in enumerate(under_way):
                transfer.wait()
                sent += transfer.sent
                if step.add:
                    with timeline.span("compute", "add"):
                        mine += landing
                if following:  # what came in this step is what leaves in the next
                    under_way[part] = begin(following, part)
    return sent


def cut(tensor, parts):
    return [tensor[start:end] for start, end in theory.chunk_bounds(len(tensor), parts)]


def naive_all_reduce(tensor, rank, ranks):
    """Everything to rank 0, which adds, and the sum back to everybody. All of it passes through rank 0's link."""
    if not len(tensor) or ranks == 1:
        return 0
    if rank != 0:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)
        return tensor.nbytes
    inbox = torch.empty_like(tensor)
    for other in range(1, ranks):
        with timeline.span("communication", f"receive from rank {other}"):
            dist.recv(inbox, other)
        with timeline.span("compute", "add"):
            tensor += inbox
    for other in range(1, ranks):
        with timeline.span("communication", f"send to rank {other}"):
            dist.send(tensor, other)
    return (ranks - 1) * tensor.nbytes


def librarys_all_reduce(tensor):
    with timeline.span("communication", "all_reduce"):
        dist.all_reduce(tensor)


# ---- The experiment.


def main(me):
    settings = parameters.read(__file__)
    sizes = collectives.sizes(settings.min_bytes, settings.max_bytes, settings.factor)
    # The tensor, an inbox as large (the naive way's), and what the library may hold besides.
    hardware.refuse_beyond_memory(me, 3 * settings.max_bytes, f"a tensor of {settings.max_bytes} B (max_bytes)")
    hardware.note_mixed_gpus(me)
    if me.world_size == 1:
        report.note("a ring of one has nothing to send: what is shown is that it keeps its sum, and what calls cost")
    ways = {
        "ring": lambda tensor: ring_all_reduce(tensor, me.rank, me.world_size, settings.piece_bytes),
        "naive": lambda tensor: naive_all_reduce(tensor, me.rank, me.world_size),
        "library": librarys_all_reduce,
    }
    prove(me)
    tensor = torch.zeros(settings.max_bytes // 4, device=me.device)  # float32; sums of zeros stay finite
    small = tensor[: len(tensor) // 4]
    for way in ("ring", "naive"):
        count_bytes(me, way, ways[way], small[1:], settings.piece_bytes)  # one less: no N divides it by chance
    for way, all_reduce in ways.items():
        record(me, way, all_reduce, small)
    for number, size in enumerate(sizes, 1):
        part = tensor[: size // 4]
        times = clock.alternate(me, {way: partial(ways[way], part) for way in ways}, settings.seconds)
        if me.rank == 0:
            tell(me, times, part.nbytes)
            report.progress(number, len(sizes))
    if me.rank == 0:
        predict(me, times, part.nbytes)


def prove(me):
    """Rings of 1, 2, ... ranks, tensors that N does and doesn't divide, and empty ones: equal to the library's sum.

    The values are whole numbers, small enough for float32 to hold every sum exactly. So equal means equal.
    """
    for ranks in sorted({n for n in (1, 2, 3, 4, me.world_size) if n <= me.world_size}):
        members = dist.new_group(list(range(ranks)))  # for the library; every rank must take part in making it
        wrong = torch.zeros((), dtype=torch.int64, device=me.device)
        if me.rank < ranks:
            for count in (0, 1, ranks - 1, ranks, ranks + 1, 1000 * ranks, 12_345):
                mine = torch.empty(count, device=me.device)
                exact.write(mine, exact.Pattern(ranks, mine.dtype, me.device).of_rank(me.rank))
                librarys = mine.clone()
                dist.all_reduce(librarys, group=members)
                ring_all_reduce(mine, me.rank, ranks, piece_bytes=4096)
                wrong += torch.count_nonzero(mine != librarys)
        dist.all_reduce(wrong)
        if me.rank == 0:
            report.check(f"the sum equals the library's ({ranks} rank{'s' * (ranks > 1)})", wrong, equal=0)


def count_bytes(me, way, all_reduce, tensor, piece_bytes):
    """What each rank sends, counted by the code above and by the kernel, beside what these chunks require exactly."""
    elements = theory.ring_elements if way == "ring" else theory.naive_elements
    required = elements(len(tensor), me.rank, me.world_size) * tensor.itemsize
    all_reduce(tensor)  # connections are made by the first call
    handed = []
    traffic = wire.count(lambda: handed.append(all_reduce(tensor)), me.device)
    # Every rank has its own count to show: with uneven chunks they differ.
    report.prediction(f"bytes sent by rank {me.rank} ({way})", required, traffic.sent, "B", why=traffic.why)
    report.result("bytes_sent", traffic.sent, "B", way=way, sender=me.rank, size_bytes=tensor.nbytes)
    off = me.largest(abs(handed[0] - required))
    # The kernel also counts the headers that gloo puts before and between messages.
    besides = 0 if traffic.sent is None else traffic.sent - required
    least, most = -me.largest(-besides), me.largest(besides)
    if me.rank == 0:
        report.check(f"bytes sent are the exact count ({way})", off, equal=0)
        if traffic.sent is not None and way == "ring":
            messages = theory.all_reduce_messages(me.world_size) * (tensor.nbytes // piece_bytes + 1)
            name = "the kernel counts those bytes and headers"
            report.check(name, most, at_least=0, at_most=1000 * messages, passed=least >= 0)


def record(me, way, all_reduce, tensor):
    """Puts one all-reduce on the timeline, step by step."""
    all_reduce(tensor)
    dist.barrier()
    with timeline.recording(way, nn.Module(), me.device):
        all_reduce(tensor)


def tell(me, times, size):
    for way, values in times.items():
        labels = {"way": way, "size_bytes": size, "world_size": me.world_size}
        median = statistics.median(values)
        _, busbw = theory.bandwidths("all_reduce", size, median, me.world_size)
        report.result("time_us", median * 1e6, "us", **labels)
        report.result("busbw", busbw, "GB/s", **labels)
        if way != "library":  # round by round; 1 is as fast, 2 twice as fast
            speed = [librarys / own for own, librarys in zip(values, times["library"], strict=True)]
            report.result("speed_over_library", statistics.median(speed), "", **labels)


def predict(me, times, size):
    """The largest size beside what theory says of a link of this kind."""
    known = expected.link(me.device.type)
    ring, naive = theory.cost("all_reduce", size, me.world_size, me.backend), theory.naive_cost(size, me.world_size)
    for way, cost in (("ring", ring), ("naive", naive), ("library", ring)):
        predicted, measured = cost.seconds(known.link), statistics.median(times[way])
        report.prediction(f"time of {size} B ({way})", predicted * 1e6, measured * 1e6, "us", why=known.words)


if __name__ == "__main__":
    group.run(main)

"""How fast ranks add up their tensors, from one kilobyte to one gigabyte, measured as nccl-tests does it.

For each size: prove the collective with values of which every result is known, run it again and again without a pause,
and turn the time into the two bandwidths of nccl-tests. Then two numbers for the whole curve: what a start costs, and
what the link carries once that no longer matters.

Run it with `labtui run allreduce_sweep`, or bare: `torchrun --nproc-per-node 2 experiments/allreduce_sweep/main.py`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
import torch

from labtui.bench import clock, collectives, expected, hardware, nccl_table, parameters, report
from labtui.bench.device import refuse
from labtui.theory import collectives as theory
from labtui.theory import fit


def main(me):
    settings = parameters.read(__file__)
    dtype = getattr(torch, settings.dtype)
    pairs = settings.collective == "pairs"
    name = "send_recv" if pairs else settings.collective
    refuse_what_cant_be(settings, name, dtype, me)
    hardware.note_mixed_gpus(me)
    if me.world_size == 1:
        report.note("one process has nobody to talk to: bus bandwidth is 0, and time is what it costs to call")

    labels = {"collective": name, "dtype": settings.dtype, "world_size": me.world_size}
    if pairs:
        wrong = measure_pairs(me, settings, dtype, labels)
    else:
        wrong = measure_sizes(me, settings, dtype, labels)
    if me.rank == 0:
        report.check("#wrong is 0", wrong, equal=0)


def refuse_what_cant_be(settings, name, dtype, me):
    if settings.collective == "pairs" and me.world_size == 1:
        refuse("pairs need at least 2 processes, this is 1: collective=all_reduce can still show what a call costs")
    hardware.refuse_missing_dtype(me, dtype)
    needed = collectives.bytes_needed(name, settings.max_bytes, dtype, me.world_size, me.backend)
    hardware.refuse_beyond_memory(me, needed, f"{name} of {settings.max_bytes} B (max_bytes)")


# ---- One size of one collective.


def prove_and_time(me, operation, settings):
    """What is right comes first: a collective that computes nonsense may be as fast as it likes."""
    operation.fill()
    operation.run()
    if settings.corrupt and me.rank == me.world_size - 1:
        operation.damage()
    wrong = torch.tensor([operation.wrong()], device=me.device)
    torch.distributed.all_reduce(wrong)  # of all ranks together, as nccl-tests counts
    times = clock.measure(me, operation.run, settings.seconds)
    algbw, busbw = theory.bandwidths(operation.name, operation.size, times.median, me.world_size)
    return nccl_table.Row(
        operation.size, operation.count, times.median * 1e6, algbw, busbw, wrong.item(),
        times.least * 1e6, times.p95 * 1e6, times.slowest_rank,
    ), times  # fmt: skip


def report_row(row, times, labels):
    labels = {**labels, "size_bytes": row.size}
    report.result("time_us", row.time, "us", **labels)
    report.result("algbw", row.algbw, "GB/s", **labels)
    report.result("busbw", row.busbw, "GB/s", **labels)
    report.result("wrong", row.wrong, "", **labels)
    report.result("time_min_us", row.least, "us", **labels)
    report.result("time_p95_us", row.p95, "us", **labels)
    # Ranks that wait for each other are equally slow. Where they aren't, this names the one to look at.
    report.result("slowest_rank", row.slowest_rank, "", **labels)
    report.result("slowest_over_fastest", times.median / times.fastest, "", **labels)


# ---- All sizes.


def measure_sizes(me, settings, dtype, labels):
    sizes = collectives.sizes(settings.min_bytes, settings.max_bytes, settings.factor)
    rows = []
    for number, size in enumerate(sizes, 1):
        operation = collectives.ALL[settings.collective](me, size, dtype)
        row, times = prove_and_time(me, operation, settings)
        rows.append(row)
        if me.rank == 0:
            report_row(row, times, labels)
            report.progress(number, len(sizes))
    if me.rank == 0:
        predict(me, rows[-1], labels)
        summarize(rows, labels)
        text = nccl_table.table(rows, settings.dtype, operation.redop, operation.root, operation.place)
        print(f"# {settings.collective}, {me.world_size} ranks, {me.backend}\n{text}", flush=True)
    return sum(row.wrong for row in rows)


def predict(me, row, labels):
    """The largest size beside what a link of this kind should take for it."""
    known = expected.link(me.device.type)
    cost = theory.cost(labels["collective"], row.size, me.world_size, me.backend)
    seconds = cost.seconds(known.link)
    report.prediction(f"time of {row.size} B", seconds * 1e6, row.time, "us", why=known.words)


def summarize(rows, labels):
    """Two numbers for the whole curve, latency and bandwidth, and where it is no such curve.

    A network that is sick falls past a size. So do messages between CPU processes that no longer fit its caches.
    """
    report.result("average_busbw", nccl_table.average(rows), "GB/s", **labels)
    for drop in fit.drops([row.size for row in rows], [row.busbw for row in rows]):
        what = "falls, and stays low" if drop.lasting else "drops, and comes back"
        report.note(f"bus bandwidth {what}: {drop.after:.3g} GB/s at {drop.size} B, {drop.before:.3g} GB/s before")
        report.result("falls_at" if drop.lasting else "kink_at", drop.size, "B", **labels)
    factor = theory.bus_factor(labels["collective"], labels["world_size"])
    try:
        found = fit.fit([row.size for row in rows], [row.time / 1e6 for row in rows], factor)
    except ValueError as why:
        report.note(f"no latency and bandwidth: {why}")
        return
    report.result("latency_us", found.latency_s * 1e6, "us", **labels)
    report.result("plateau_busbw", found.bytes_per_s / 1e9, "GB/s", **labels)
    report.result("half_plateau_bytes", found.half_size, "B", **labels)
    report.result("fit_error", found.mean_error * 100, "%", stat="mean", **labels)
    report.result("fit_error", found.largest_error * 100, "%", stat="largest", **labels)


# ---- All pairs of ranks: the bandwidth of the path that each pair has.


def measure_pairs(me, settings, dtype, labels):
    ranks = range(me.world_size)
    matrix = [["-" for _ in ranks] for _ in ranks]
    wrong = done = 0
    for src in ranks:
        for dst in ranks:
            if src == dst:
                continue
            for size in (settings.min_bytes, settings.max_bytes):  # what a start costs, and the plateau
                row, times = prove_and_time(me, collectives.pair(me, size, dtype, src, dst), settings)
                wrong += row.wrong
                if me.rank == 0:
                    report_row(row, times, {**labels, "src": src, "dst": dst})
            matrix[src][dst] = f"{row.busbw:.2f}"
            done += 1
            if me.rank == 0:
                report.progress(done, len(ranks) * (len(ranks) - 1))
    if me.rank == 0:
        head = "".join(f"{f'to {dst}':>9}" for dst in ranks)
        lines = [f"from {src:<4}" + "".join(f"{cell:>9}" for cell in matrix[src]) for src in ranks]
        print(f"# GB/s from rank to rank, messages of {row.size} B\n{'':9}{head}", *lines, sep="\n", flush=True)
    return wrong


if __name__ == "__main__":
    group.run(main)

"""Computing against communicating: two measurements, and the one number that they make together.

A device multiplies matrices at some speed, its link moves bytes at some other speed. The first over the second says how
much arithmetic must come with each byte for the link not to be what everybody waits for. What is found here is also the
profile of this machine: later runs predict their times from it.

Run it with `labtui run link_vs_compute`, or bare: `torchrun --nproc-per-node 2 experiments/link_vs_compute/main.py`.
"""

from labtui.bench import group  # before torch, which takes a second to load: from here on we end when torchrun ends

# isort: split
import torch

from labtui.bench import clock, collectives, expected, hardware, parameters, peak, report
from labtui.theory import collectives as theory
from labtui.theory import fit, flops

SMALLEST = 256
GAIN = 1.05  # two sizes in a row that are not 5 % faster than all before them: the knee lies behind us


def main(me):
    settings = parameters.read(__file__)
    dtypes = dtypes_to_measure(me, settings)
    size, largest = settings.max_size, settings.max_bytes
    hardware.refuse_beyond_memory(me, 3 * 4 * size**2, f"multiplying [{size}, {size}] matrices (max_size)")
    hardware.refuse_beyond_memory(
        me, collectives.bytes_needed("all_reduce", largest, torch.float32, me.world_size, me.backend),
        f"an all-reduce of {largest} B (max_bytes)",
    )  # fmt: skip
    hardware.note_mixed_gpus(me)

    best = {name: fastest_product(me, name, settings) for name in dtypes}
    link = None
    if me.world_size > 1:
        link = measured_link(me, settings)
    else:
        report.note("one process has no link to measure: only what it computes is shown")
    if me.rank == 0:
        report_balance(me, best, link)


def dtypes_to_measure(me, settings):
    if settings.dtype != "both":
        hardware.refuse_missing_dtype(me, getattr(torch, settings.dtype))
        return [settings.dtype]
    if me.device.type == "cuda" and me.largest(-torch.cuda.get_device_capability(me.device)[0]) > -8:
        report.note("bfloat16 is left out: it needs GPUs of compute capability 8.0 (Ampere) or newer")
        return ["float32"]
    return ["float32", "bfloat16"]


# ---- Compute.


def fastest_product(me, name, settings):
    """TFLOP/s of square matrix products, larger and larger, until that no longer helps; returns the best."""
    dtype = getattr(torch, name)
    prove_product(me, name, dtype)
    best, size, in_vain = 0.0, SMALLEST, 0
    while size <= settings.max_size and in_vain < 2:
        a, b, out = (torch.ones(size, size, dtype=dtype, device=me.device) for _ in range(3))
        times = clock.measure(me, lambda: torch.matmul(a, b, out=out), settings.seconds)  # noqa: B023 - run at once
        tflops = 2 * size**3 / times.median / 1e12  # of the slowest rank: in a step all wait for it
        if me.rank == 0:
            report.result("tflops", tflops, "TFLOP/s", dtype=name, size=size)
            print(f"{name:>8} [{size}, {size}] x [{size}, {size}]: {times.median * 1e3:9.3f} ms {tflops:9.4g} TFLOP/s")
        in_vain = in_vain + 1 if tflops < GAIN * best else 0
        best, size = max(best, tflops), size * 2
    card = peak.published(me.device)
    if me.rank == 0:
        report.result("best_tflops", best, "TFLOP/s", dtype=name)
        if name == "bfloat16" and card is not None:
            report.prediction("bfloat16 matrix product, at most", card.bf16_tflops, best, "TFLOP/s", why=card.source)
            report.result("share_of_peak", best / card.bf16_tflops, "", dtype=name)
    return best


def prove_product(me, name, dtype):
    """Small whole numbers: their products and sums are exact, so right means equal to the same in float64."""
    a, b = (torch.randint(-1, 2, (SMALLEST, SMALLEST), device=me.device).to(dtype) for _ in range(2))
    off = me.largest(((a @ b).double() - a.double() @ b.double()).abs().max().item())
    if me.rank == 0:
        report.check(f"matrix products are exact ({name})", off, equal=0)


# ---- Communication.


def measured_link(me, settings):
    """Two numbers for the link: what a message costs however small it is, and the bandwidth that large ones reach."""
    before = expected.link(me.device.type)  # what is known before anything is measured
    sizes, size = [], 2**14
    while size <= settings.max_bytes:
        sizes.append(size)
        size *= 4
    seconds, wrong = [], 0
    for size in sizes:
        operation = collectives.all_reduce(me, size, torch.float32)
        operation.fill()
        operation.run()
        wrong += me.largest(operation.wrong())
        seconds.append(clock.measure(me, operation.run, settings.seconds).median)
        _, busbw = theory.bandwidths("all_reduce", size, seconds[-1], me.world_size)
        if me.rank == 0:
            labels = {"collective": "all_reduce", "dtype": "float32", "size_bytes": size, "world_size": me.world_size}
            report.result("busbw", busbw, "GB/s", **labels)
            print(f"all_reduce of {size:>10} B: {seconds[-1] * 1e3:9.3f} ms, bus bandwidth {busbw:7.3f} GB/s")
    found = fit.fit(sizes, seconds, theory.bus_factor("all_reduce", me.world_size))
    alpha, beta = found.latency_s / theory.all_reduce_messages(me.world_size), found.bytes_per_s / 1e9
    if me.rank == 0:
        report.check("#wrong is 0", wrong, equal=0)
        report.result("alpha", alpha, "s")
        report.result("beta", beta, "GB/s")
        report.result("fit_error", found.mean_error, "", stat="mean")
        report.prediction("bus bandwidth of large messages", before.link.bytes_per_s / 1e9, beta, "GB/s", before.words)
    return beta


# ---- One over the other.


def report_balance(me, best, beta):
    for machine in flops.PUBLISHED_BALANCES:
        report.result("published_flops_per_byte", machine.flops_per_byte, "FLOP/B", machine=machine.machine)
        print(f"{machine.flops_per_byte:9.0f} FLOP/B  {machine.machine} (published)")
    if beta is None:
        return
    for dtype, tflops in best.items():
        ratio = flops.flops_per_byte(tflops, beta)
        report.result("flops_per_byte", ratio, "FLOP/B", dtype=dtype)
        print(f"{ratio:9.0f} FLOP/B  here, {dtype}: {tflops:.4g} TFLOP/s over {beta:.3f} GB/s")
        # Gradients in float32, as DDP has them. The size of the model does not matter: more of it is more of both.
        tokens = flops.tokens_to_hide(ratio, me.world_size, element=4)
        report.result("tokens_to_hide", tokens, "tokens", dtype=dtype)
        print(f"{tokens:9.0f} tokens a rank and step hide the all-reduce of float32 gradients ({dtype} compute)")


if __name__ == "__main__":
    group.run(main)

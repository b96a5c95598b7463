"""What links and GPUs can do at most: tables of published figures, each with its source.

Numbers in, numbers out: nothing here was measured, and nothing looks at a machine. Bandwidths are GB/s (1e9 bytes) in
ONE direction; vendors like to print the sum of both. Peaks are dense, without sparsity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PUBLISHED, UNVERIFIED = "published", "unverified"
"""Read in the named source; known from third parties or from memory only."""

_ML_ENGINEERING = "stas00/ml-engineering, compute/accelerator and network, 744d01e1"
_LLM_ANALYSIS = "llm-analysis, GPU configurations, d841e40a"
_WHITEPAPERS = "NVIDIA's whitepapers, by third-party transcriptions"
_DEEPSEEK = "the DeepSeek-V3 report"
_MEMORY = "from memory, nobody has checked it"
_HWLOC = "open-mpi/hwloc issue 574, after Wikipedia's NVLink page"


@dataclass(frozen=True)
class Ceiling:
    """The most that a link can carry."""

    gb_per_s: float
    """GB/s (1e9 bytes) in one direction."""
    what: str
    """The link in words: `PCIe 4.0 x16`."""
    source: str
    status: str = PUBLISHED


# PCIe ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PcieGeneration:
    """A generation of PCI Express."""

    number: int
    gigatransfers: float
    """Transfers per second and lane, in 1e9: each carries one bit before encoding."""
    efficiency: float
    """Share of the bits that is left after the line code."""
    encoding: str


PCIE = {
    generation.number: generation
    for generation in (
        PcieGeneration(1, 2.5, 8 / 10, "8b/10b"),
        PcieGeneration(2, 5.0, 8 / 10, "8b/10b"),
        PcieGeneration(3, 8.0, 128 / 130, "128b/130b"),
        PcieGeneration(4, 16.0, 128 / 130, "128b/130b"),
        PcieGeneration(5, 32.0, 128 / 130, "128b/130b"),
        # Flits of 256 bytes: 236 for packets, the rest for link control, CRC and error correction.
        PcieGeneration(6, 64.0, 236 / 256, "flits, 236 of 256 bytes"),
    )
}
"""By number. Source: PCI Express Base Specification, revisions 1.0 to 6.0."""


def pcie(generation: int, width: int) -> Ceiling | None:
    """What a PCIe link of `width` lanes carries; None for a generation that isn't in the table, or no lanes.

    The headers of packets take their share of it: copies reach about 85 to 90 percent.
    """
    found = PCIE.get(generation)
    if found is None or not 1 <= width <= 32:
        return None
    return Ceiling(
        width * found.gigatransfers * found.efficiency / 8,
        f"PCIe {generation}.0 x{width}",
        f"PCI Express Base Specification {generation}.0: {found.gigatransfers:g} GT/s a lane, {found.encoding}",
    )


# NVLink -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NvLinkGeneration:
    """A generation of NVLink."""

    number: int
    link_gb_per_s: float
    """Of one link, in one direction."""
    most_links: int
    """On the largest GPU of that generation."""
    example: str
    source: str


NVLINK = {
    generation.number: generation
    for generation in (
        NvLinkGeneration(1, 20.0, 4, "P100", f"{_HWLOC}: 8 pairs of 20 Gbit/s each way"),
        NvLinkGeneration(2, 25.0, 6, "V100", f"{_HWLOC}: 300 GB/s both ways over 6 links"),
        NvLinkGeneration(3, 25.0, 12, "A100", f"{_ML_ENGINEERING}: 300 GB/s over 12 links"),
        NvLinkGeneration(4, 25.0, 18, "H100", f"{_ML_ENGINEERING}: 450 GB/s over 18 links"),
        NvLinkGeneration(5, 50.0, 18, "B200", f"{_ML_ENGINEERING}: 900 GB/s over 18 links"),
    )
}
"""By number."""


def nvlink(links: int, generation: int | None, link_gb_per_s: float | None = None) -> Ceiling | None:
    """What `links` NVLinks together carry; None where neither the generation nor a link's speed is known.

    `link_gb_per_s` is the speed that the driver tells of one link. It is the line rate: above the published figure
    (26.6 for 25) where forward error correction takes the rest, below it on bridges of consumer cards (14.1 for 25).
    So the smaller of the two counts.
    """
    if links < 1:
        return None
    found = NVLINK.get(generation) if generation is not None else None
    told = link_gb_per_s if link_gb_per_s is not None and link_gb_per_s > 0 else None
    if found is None and told is None:
        return None
    if found is not None and (told is None or told >= found.link_gb_per_s):
        rate, source = found.link_gb_per_s, found.source
    else:
        assert told is not None
        rate, source = told, "the speed of one link, as the driver tells it (NVML)"
    name = f"NVLink {generation}" if found is not None else "NVLink"
    return Ceiling(links * rate, f"{links} x {name}", source)


def nvlink_candidates(links: int) -> list[Ceiling]:
    """What so many NVLinks carry in each generation that has GPUs with so many: for texts that tell only a number."""
    ceilings = (nvlink(links, number) for number, found in NVLINK.items() if links <= found.most_links)
    return [ceiling for ceiling in ceilings if ceiling is not None]


# GPUs ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GpuModel:
    """The published figures of a GPU."""

    name: str
    bf16_tflops: float
    """Dense bf16 matmul with fp32 accumulation, 1e12 FLOP/s."""
    memory_gb: float
    """As the vendor names it, 1e9 bytes."""
    memory_tb_per_s: float
    link_gb_per_s: float
    """To other GPUs of the machine: NVLink or xGMI of all links together, else PCIe. One direction."""
    source: str
    status: str = PUBLISHED
    note: str = ""


GPUS = (
    GpuModel("A100 SXM 80GB", 312, 80, 2.039, 300, f"{_ML_ENGINEERING}; {_LLM_ANALYSIS}"),
    GpuModel("A100 SXM 40GB", 312, 40, 1.555, 300, _LLM_ANALYSIS),
    GpuModel("A100 PCIe 80GB", 312, 80, 1.935, 31, _ML_ENGINEERING, note="PCIe 4 x16 unless bridged"),
    GpuModel("H100 SXM", 989, 80, 3.35, 450, _ML_ENGINEERING),
    GpuModel("H100 PCIe", 756, 80, 2.0, 63, _ML_ENGINEERING, note="PCIe 5 x16 unless bridged"),
    GpuModel(
        "H800 SXM", 989, 80, 3.35, 200, f"{_DEEPSEEK}; peak and memory {_MEMORY}", UNVERIFIED,
        "NVLink 400 GB/s both ways, of which the report reached 160 one way",
    ),
    GpuModel("H200", 989, 141, 4.8, 450, _ML_ENGINEERING),
    GpuModel("B200", 2250, 180, 8.0, 900, _ML_ENGINEERING),
    GpuModel("MI300X", 1307, 192, 5.3, 448, _ML_ENGINEERING, note="64 GB/s between one pair"),
    GpuModel("RTX 3090", 71, 24, 0.936, 31, _MEMORY, UNVERIFIED, "PCIe 4 unless bridged"),
    GpuModel("RTX 4080", 97.5, 16, 0.717, 31, _MEMORY, UNVERIFIED, "neither NVLink nor peer access"),
    GpuModel(
        "RTX 4090", 165.2, 24, 1.008, 31, _WHITEPAPERS, UNVERIFIED, "no NVLink; peer access with a patched driver only"
    ),
    GpuModel("RTX 5090", 209.5, 32, 1.792, 63, _WHITEPAPERS, UNVERIFIED, "PCIe 5"),
    GpuModel("RTX A6000", 154.8, 48, 0.768, 31, f"{_WHITEPAPERS}; memory {_MEMORY}", UNVERIFIED),
)  # fmt: skip
"""In the order of the reference table that they come from."""

# What NVML calls them. Close relatives are other chips (4090 D, 3090 Ti, 4080 SUPER, Laptop GPU, H100 NVL): no match.
_NVML_NAMES = (
    (r"A100-SXM4-80GB|A100-SXM-80GB", "A100 SXM 80GB"),
    (r"A100-SXM4-40GB|A100-SXM-40GB", "A100 SXM 40GB"),
    (r"A100 80GB PCIe|A100-PCIE-80GB", "A100 PCIe 80GB"),
    (r"H100 80GB HBM3", "H100 SXM"),
    (r"H100 PCIe", "H100 PCIe"),
    (r"H800", "H800 SXM"),
    (r"H200", "H200"),
    (r"B200", "B200"),
    (r"(?:GeForce )?RTX 3090", "RTX 3090"),
    (r"(?:GeForce )?RTX 4080", "RTX 4080"),
    (r"(?:GeForce )?RTX 4090", "RTX 4090"),
    (r"(?:GeForce )?RTX 5090", "RTX 5090"),
    (r"RTX A6000", "RTX A6000"),
    (r"(?:Instinct )?MI300X", "MI300X"),
)


def gpu_model(name: str) -> GpuModel | None:
    """The figures of the GPU that a driver calls `name`; None where the table has no such GPU.

    `NVIDIA H100 80GB HBM3` -> H100 SXM. A name of the table itself is understood too.
    """
    plain = " ".join(name.split()).removeprefix("NVIDIA ").removeprefix("AMD ")
    for model in GPUS:
        if plain.casefold() == model.name.casefold():
            return model
    for pattern, known in _NVML_NAMES:
        if re.fullmatch(pattern, plain, re.IGNORECASE):
            return next(model for model in GPUS if model.name == known)
    return None

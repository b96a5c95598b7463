"""What one GPU's PCIe link and NVLinks carry, from counters where the driver has them. Knows no other GPU.

NVLink's counters are read at each reading. PCIe's are 32 bits wide on many GPUs, and a fast link fills them several
times between two readings: there they are read twice in short succession, after the reading, for the next one. A driver
without them measures by itself, 20 ms for each direction; GPUs take turns at that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from labtui.machine.gpu import Gone, Handle
from labtui.machine.reading import BY_TURNS, NOT_SUPPORTED, SECOND_NEEDED, WRAP, counter_rate
from labtui.theory import hardware

WINDOW_S = 0.05
"""Between two readings of PCIe's counters; shorter where a link could fill 32 bits within it."""

_PCIE_TX, _PCIE_RX = 197, 198
"""NVML_FI_DEV_PCIE_COUNT_TX_BYTES and RX; by number, since the names came to nvidia-ml-py later than to drivers."""
_NVLINK_COUNTERS = ((138, 139, 1024), (202, 204, 1))
"""tx and rx of one link (the field's scope), and bytes per count: KiB of data; bytes, told from NVLink 5 on."""

Rates = dict[str, float | None]


class Traffic:
    """Turns counters into rates: GB/s (1e9 bytes), rx into the GPU, tx out of it."""

    def __init__(
        self, handle: Handle, clock: Callable[[], float], pcie: tuple[int | None, int | None], nvlinks: Sequence[int]
    ) -> None:
        """`pcie` is generation and width at most, `nvlinks` the links that are up. Raises Gone."""
        self._handle = handle
        self._clock = clock
        self._most_pcie = most_bytes_per_s(*pcie)
        self._before: dict[str, tuple[float, int]] = {}
        """Rate -> when its counter was last read, and what it said (bytes)."""
        self._pcie_measured: tuple[float, float] | None = None
        """rx and tx, by `measure` since the last reading."""
        self._pcie_way: str | None = None
        """`window` or `throughput`: how `measure` does it; None while ticks are short enough for the counters."""
        self._pcie_why: str | None = None
        """Why PCIe's traffic can't be measured at all."""
        self._sent: list[tuple[int, int]] = []
        self._received: list[tuple[int, int]] = []
        self._unit = 1
        self.nvlink_why: str | None = NOT_SUPPORTED if not nvlinks else None
        """Why NVLink's traffic can't be told."""
        self._choose_nvlink_counters(nvlinks)

    def _choose_nvlink_counters(self, links: Sequence[int]) -> None:
        for tx, rx, unit in _NVLINK_COUNTERS if links else ():
            sent, received = [(tx, link) for link in links], [(rx, link) for link in links]
            if None not in self._handle.field_values([*sent, *received]):
                self._sent, self._received, self._unit = sent, received, unit
                return
        if links:
            self.nvlink_why = "the driver doesn't tell what its NVLinks carry"

    def forget(self) -> None:
        """After a reading that failed: counters may have begun anew."""
        self._before.clear()
        self._pcie_measured = None

    def read(self, why: dict[str, str]) -> Rates:
        """The rates since the last reading; None, with a reason, for those that aren't known. Raises Gone."""
        now = self._clock()
        values = self._handle.field_values([_PCIE_TX, _PCIE_RX, *self._sent, *self._received])
        rates: Rates = dict.fromkeys(("pcie_rx", "pcie_tx", "nvlink_rx", "nvlink_tx"))
        self._read_pcie(now, values[0], values[1], rates, why)
        if self.nvlink_why is not None:
            why.update(nvlink_rx=self.nvlink_why, nvlink_tx=self.nvlink_why)
        else:
            split = 2 + len(self._sent)
            self._read_nvlink("nvlink_tx", now, values[2:split], rates, why)
            self._read_nvlink("nvlink_rx", now, values[split:], rates, why)
        return rates

    def _read_nvlink(
        self, name: str, now: float, links: Sequence[int | None], rates: Rates, why: dict[str, str]
    ) -> None:
        known = [value for value in links if value is not None]
        before = self._before.pop(name, None)
        if len(known) < len(links):
            why[name] = "the driver doesn't tell what all its NVLinks carried"
            return
        total = sum(known) * self._unit
        self._before[name] = (now, total)
        if before is None or now <= before[0] or total < before[1]:
            why[name] = SECOND_NEEDED
        else:
            rates[name] = (total - before[1]) / (now - before[0]) / 1e9

    def _read_pcie(self, now: float, tx: int | None, rx: int | None, rates: Rates, why: dict[str, str]) -> None:
        measured, self._pcie_measured = self._pcie_measured, None
        if tx is None or rx is None:
            self._pcie_way = "throughput"
        else:
            self._pcie_way = "window"
            counted = self._since_last("pcie_rx", now, rx), self._since_last("pcie_tx", now, tx)
            if counted[0] is not None and counted[1] is not None:
                measured, self._pcie_way = (counted[0], counted[1]), None
        if measured is not None:
            rates["pcie_rx"], rates["pcie_tx"] = measured
        else:
            reason = self._pcie_why or (BY_TURNS if self._pcie_way == "throughput" else SECOND_NEEDED)
            why.update(pcie_rx=reason, pcie_tx=reason)

    def _since_last(self, name: str, now: float, count: int) -> float | None:
        before = self._before.get(name)
        self._before[name] = (now, count)
        return None if before is None else counter_rate(before[1], count, now - before[0], self._most_pcie)

    # After a reading ------------------------------------------------------------------------------------------------

    @property
    def needs_turn(self) -> bool:
        """Whether measuring holds the driver for 40 ms, so that GPUs should take turns."""
        return self._pcie_way == "throughput" and self._pcie_why is None

    def measure(self, pause: Callable[[float], object], turn: bool) -> None:
        """Measures PCIe's traffic for the next reading, where its counters alone can't tell it.

        `pause` waits so many seconds, or less if something else is to do; `turn` says that it is this GPU's turn.
        """
        try:
            if self._pcie_way == "window":
                self._measure_window(pause)
            elif self.needs_turn and turn:
                self._measure_throughput()
        except Gone:
            pass  # the next reading will say so

    def _measure_window(self, pause: Callable[[float], object]) -> None:
        begun, first = self._clock(), self._handle.field_values([_PCIE_RX, _PCIE_TX])
        pause(min(WINDOW_S, 0.75 * WRAP / self._most_pcie))
        ended, second = self._clock(), self._handle.field_values([_PCIE_RX, _PCIE_TX])
        rates = [
            counter_rate(before, after, ended - begun, self._most_pcie)
            for before, after in zip(first, second, strict=True)
            if before is not None and after is not None
        ]
        known = [rate for rate in rates if rate is not None]
        if len(known) == 2:
            self._pcie_measured = known[0], known[1]

    def _measure_throughput(self) -> None:
        why: dict[str, str] = {}
        # Counter 0 is tx. NVML says KB; programs that show it take that as 1024 bytes.
        sent = self._handle.ask(why, "pcie", "nvmlDeviceGetPcieThroughput", 0)
        received = self._handle.ask(why, "pcie", "nvmlDeviceGetPcieThroughput", 1)
        self._pcie_why = why.get("pcie")
        if sent is not None and received is not None:
            self._pcie_measured = received * 1024 / 1e9, sent * 1024 / 1e9


def most_bytes_per_s(generation: int | None, width: int | None) -> float:
    """What a PCIe link carries at most; the fastest that there is, where it isn't known."""
    found: Any = hardware.pcie(generation, width) if generation and width else None
    found = found or hardware.pcie(max(hardware.PCIE), 16)
    return float(found.gb_per_s) * 1e9

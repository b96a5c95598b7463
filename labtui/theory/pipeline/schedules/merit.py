"""What makes one order better than another, for the schedules that are searched for."""

from __future__ import annotations

Merit = tuple[float, ...]
"""Smaller is better."""


def merit(span: float, *less: float) -> Merit:
    """The longest span of a device first (arXiv 2401.10241 section 4.3: devices can begin a step apart), `less` next.

    To 12 digits: the same work added up in another order differs in the last bits, and that makes none the better one.
    """
    return tuple(float(f"{value:.11e}") for value in (span, *less))

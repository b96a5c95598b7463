from __future__ import annotations

from cli.conftest import labtui, make_run

__all__ = ["labtui", "make_run"]

"""What the tests of runs share."""

from made import make_run

__all__ = ["make_run"]

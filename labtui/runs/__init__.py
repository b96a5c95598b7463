"""Runs: their folders, their owner, how they are started, followed, found again and ended."""

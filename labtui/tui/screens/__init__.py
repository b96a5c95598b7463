"""Screens: what stands where, and what happens on a key or on news from the watcher."""

"""Arithmetic and tables: numbers in, numbers out. No torch, no state, nothing measured."""

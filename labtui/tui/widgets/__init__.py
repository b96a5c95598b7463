"""Widgets: nouns that draw what they are given. They do no I/O and know no files; screens feed them."""

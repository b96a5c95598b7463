"""The text that small language models are trained on, and the grammar that wrote it."""

"""labtui, a terminal lab for distributed training. Importing it imports nothing."""

__version__ = "0.1.0"

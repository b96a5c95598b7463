"""The command line: one module per group of commands, thin callers of the packages below."""

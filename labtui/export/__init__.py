"""What is known, in forms that other programs open. Knows no command line and no screen; writes no file itself."""

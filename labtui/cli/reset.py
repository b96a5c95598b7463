"""`labtui reset`: repairs a terminal that a killed program left in its own state."""

from __future__ import annotations

import argparse
import sys

SEQUENCE = "".join(
    (
        "\x1b[?1049l",  # back from the alternate screen
        "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l",  # the mouse is not reported
        "\x1b[?1004l",  # nor is focus
        "\x1b[?2004l",  # pasted text comes as typed
        "\x1b[<u",  # keys come in the plain way
        "\x1b[?25h",  # the cursor is shown
        "\x1b[?7h",  # long lines wrap
        "\x1b[!p\x1b[0m",  # what else a soft reset restores; no colours
    )
)


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.epilog = "Enter, then `stty sane; labtui reset` where the shell doesn't show what is typed."


def main(arguments: argparse.Namespace) -> int:
    sys.stdout.write(SEQUENCE)
    _make_sane()
    return 0


def _make_sane() -> None:
    """As `stty sane` for what programs like ours switch off: lines, echo, signals from keys, newlines."""
    import termios

    if not sys.stdin.isatty():
        return
    mode = termios.tcgetattr(sys.stdin)
    mode[0] |= termios.ICRNL | termios.IXON | termios.BRKINT
    mode[1] |= termios.OPOST | termios.ONLCR
    mode[3] |= termios.ICANON | termios.ECHO | termios.ECHOE | termios.ISIG | termios.IEXTEN
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, mode)

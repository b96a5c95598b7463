"""`labtui doctor`: what of this machine would trip up a run, and what to do about it."""

from __future__ import annotations

import argparse

from labtui.cli import output
from labtui.runs.clean import clean_line

_WORDS = {"ok": "ok", "note": "note", "warn": "WARNING", "fail": "FAILS"}


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = "Exit code 1 if something will go wrong in runs on this machine, else 0."


def main(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict

    from labtui.machine import doctor
    from labtui.runs.folder import logs_root

    findings = doctor.examine(logs_root())
    if arguments.json:
        output.print_json([asdict(finding) for finding in findings])
    else:
        names = max(len(finding.name) for finding in findings)
        for finding in findings:
            print(f"{_WORDS[finding.level]:<7}  {finding.name:<{names}}  {clean_line(finding.found)}")
            if finding.level != "ok":
                for text in (finding.why, finding.advice and f"-> {finding.advice}"):
                    if text:
                        print(f"{'':<7}  {'':<{names}}  {clean_line(text)}")
    return 1 if any(finding.level in ("warn", "fail") for finding in findings) else 0

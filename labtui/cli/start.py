"""labtui run, rerun, stop: what begins and ends runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from labtui.catalog import parameters, sources
from labtui.catalog.manifest import Experiment, Variant
from labtui.cli import output
from labtui.cli.follow import follow
from labtui.machine import host
from labtui.runs import control, find, start
from labtui.runs.document import run_document
from labtui.runs.folder import RunFolder, logs_root
from labtui.runs.records import EXIT_CODES, FAILED, LOST, SUCCEEDED, TIMED_OUT, RecordError, Status
from labtui.runs.start import Options, StartError

DEFAULT = "default"
"""How the variant "" is called in a list of variants."""


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    """Adds the command's arguments."""
    if command == "stop":
        parser.add_argument("run", metavar="RUN")
        parser.add_argument("--detach", action="store_true", help="ask, and do not wait")
        parser.add_argument("--json", action="store_true", help="one JSON document")
        return
    if command == "run":
        parser.add_argument("experiment", metavar="NAME", nargs="?", help="an experiment (see: labtui experiments)")
        several = parser.add_mutually_exclusive_group()
        several.add_argument("--variant", default="", metavar="V", help="a variant of it")
        several.add_argument("--variants", metavar="A,B|all", help="several variants, one after the other")
        parser.add_argument("--fail-fast", action="store_true", help="end a group with its first failure")
    else:
        parser.add_argument("run", metavar="RUN")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter (repeatable)")
    parser.add_argument("--nproc", type=int, metavar="N", help="processes (world size)")
    parser.add_argument("--device", metavar="cpu|cuda")
    parser.add_argument(
        "--link", metavar="RATE", help="a shaped link between CPU processes, such as 1gbit; none: not the variant's"
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="an environment variable (repeatable)"
    )
    parser.add_argument("--timeout", type=float, metavar="S", help="time limit in seconds")
    parser.add_argument("--stall", type=float, metavar="S", help="longest time in seconds without event or output")
    parser.add_argument("--python", metavar="PATH", help="interpreter of the environment to run in")
    parser.add_argument("--share", action="store_true", help="do not wait for GPUs that hold another run")
    parser.add_argument("--quiet-nccl", action="store_true", help="leave NCCL's log settings alone")
    parser.add_argument("--queue", action="store_true", help="wait for all runs before this one")
    parser.add_argument("--detach", action="store_true", help="print the run id and return; the run goes on")
    parser.add_argument("--json", action="store_true", help="one JSON document at the end")


def main(arguments: argparse.Namespace) -> int:
    """Runs the command; returns the exit code. Raises the errors of `start`, `find` and `control`."""
    root = logs_root()
    if arguments.command == "stop":
        return _stop(find.resolve(root, arguments.run), arguments)
    if arguments.nproc is not None and arguments.nproc < 1:
        raise StartError(f"--nproc is {arguments.nproc}, at least 1 expected")
    for name in ("timeout", "stall"):
        value = getattr(arguments, name)
        if value is not None and not value > 0:
            raise StartError(f"--{name} is {value:g}, a number of seconds above 0 expected")
    settings, environment = _pairs(arguments.set, "--set"), _pairs(arguments.env, "--env")
    options = Options(
        device=arguments.device,
        nproc=arguments.nproc,
        link=arguments.link,
        environment=environment,
        timeout_s=arguments.timeout,
        stall_s=arguments.stall,
        python=arguments.python,
        share=arguments.share,
        queue=arguments.queue,
        quiet_nccl=arguments.quiet_nccl,
        fail_fast=getattr(arguments, "fail_fast", False),
    )
    if arguments.command == "rerun":
        folders = [start.rerun(root, find.resolve(root, arguments.run), settings, options)]
    elif arguments.rest is not None:
        if arguments.experiment is not None or settings or arguments.variant or arguments.variants:
            raise StartError("either an experiment or a command after --, not both")
        folders = [start.start_command(root, arguments.rest, options)]
    elif arguments.experiment is None:
        raise StartError("an experiment is needed (see: labtui experiments), or a command after --")
    else:
        experiment = sources.find(arguments.experiment)
        variants = _variants(experiment, arguments)
        folders = start.start(root, experiment, variants, settings, options)
    return _report(folders, arguments)


def _variants(experiment: Experiment, arguments: argparse.Namespace) -> list[str]:
    if arguments.variants is None:
        return ["" if arguments.variant == DEFAULT else arguments.variant]
    if arguments.variants == "all":
        return _all_variants(experiment, arguments.device)
    return ["" if name == DEFAULT else name for name in arguments.variants.split(",") if name]


def _all_variants(experiment: Experiment, asked: str | None) -> list[str]:
    """Every variant for this device, the default one first, unless one of the others is the same by a name."""
    device = parameters.choose_device(experiment, "", asked, host.gpu_count())
    fitting = [variant for variant in experiment.variants if device in variant.devices]
    left_out = [variant.name for variant in experiment.variants if variant not in fitting]
    if left_out:
        output.say(f"left out, since they do not run on {device}: {', '.join(left_out)}")
    defaults = {parameter.name: parameter.default_on(device) for parameter in experiment.parameters}

    def changes_nothing(variant: Variant) -> bool:
        sets = variant.environment or variant.link or variant.processes or variant.expect_failure
        return not sets and all(defaults[name] == value for name, value in variant.parameters.items())

    names = [variant.name for variant in fitting]
    return names if any(map(changes_nothing, fitting)) else ["", *names]


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise StartError(f"{option} {text}: NAME=VALUE expected")
        pairs[name] = value
    return pairs


def _report(folders: Sequence[RunFolder], arguments: argparse.Namespace) -> int:
    group = getattr(arguments, "variants", None) is not None
    if arguments.detach:
        documents: list[dict[str, Any]] = [run_document(folder) for folder in folders]
        if arguments.json:
            output.print_json(documents if group else documents[0])
        else:
            print(*(folder.id for folder in folders), sep="\n")
        return 0
    if not arguments.json:
        names = folders[0].id if len(folders) == 1 else f"{len(folders)} runs, the first is {folders[0].id}"
        print(f"started {names} (ctrl-c stops it; closing the terminal does not)", file=sys.stderr)
    try:
        ends = follow(folders)
    except RecordError as error:
        if all(folder.path.is_dir() for folder in folders):
            raise
        output.say(str(error))
        return EXIT_CODES[LOST]
    if arguments.json:
        documents = [run_document(folder) for folder in folders]
        output.print_json(documents if group else documents[0])
    else:
        for folder in folders:
            print(output.run_report(folder))
    return exit_code(ends)


def exit_code(ends: Sequence[Status]) -> int:
    """One run's exit code; of a group the gravest: failed or lost, then timed out, then stopped."""
    states = {status.state for status in ends}
    if states & {FAILED, LOST}:
        return EXIT_CODES[FAILED]
    if TIMED_OUT in states:
        return EXIT_CODES[TIMED_OUT]
    return next((EXIT_CODES[state] for state in states if state != SUCCEEDED), 0)


def _stop(folder: RunFolder, arguments: argparse.Namespace) -> int:
    control.stop(folder)
    if arguments.detach:
        if arguments.json:
            output.print_json(run_document(folder))
        return 0
    status = follow([folder])[0]
    if arguments.json:
        output.print_json(run_document(folder))
    else:
        print(f"{folder.id} {status.state}: {status.reason}")
    return EXIT_CODES[status.state]

"""`labtui experiments`: what can be run, by topic."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from labtui.cli import output

if TYPE_CHECKING:
    from labtui.catalog.manifest import Experiment
    from labtui.catalog.sources import BrokenExperiment


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("--names", action="store_true", help="only their names, one a line")
    parser.add_argument("--json", action="store_true", help="one JSON document: a list of all that their manifests say")


def main(arguments: argparse.Namespace) -> int:
    from labtui.catalog import sources

    found = sources.catalog()
    broken = [one for one in found if isinstance(one, sources.BrokenExperiment)]
    whole = [one for one in found if not isinstance(one, sources.BrokenExperiment)]
    if arguments.names:
        output.print_lines([one.name for one in whole])
    elif arguments.json:
        output.print_json([*map(_document, whole), *map(_broken_document, broken)])
    else:
        _print(whole)
    for one in broken:
        output.say(f"{one.name} is broken: {one.error}")
    if not found:
        output.say("there are no experiments")
    return 0


def _print(experiments: list[Experiment]) -> None:
    width = output.line_width()
    topic = None
    for experiment in experiments:
        if experiment.topic != topic:
            if topic is not None:
                print()
            topic = experiment.topic
            print(topic)
        minutes = f"{experiment.minutes:g} min"
        print(output.cut(f"  {experiment.name}: {experiment.title}", width))
        print(output.cut(f"    {experiment.question}", width))
        print(output.cut(f"    {', '.join(experiment.devices)}; about {minutes}", width))
        if experiment.variants:
            names = ", ".join(variant.name for variant in experiment.variants)
            print(output.cut(f"    variants: {names}", width))


def _document(experiment: Experiment) -> dict[str, Any]:
    from dataclasses import asdict

    document = asdict(experiment)
    # By name, as in the manifest.
    for key in ("parameters", "variants"):
        document[key] = {item.pop("name"): item for item in document[key]}
    if document["processes"]["default"] is None:
        document["processes"]["default"] = "gpus"
    document["folder"], document["main"] = str(experiment.folder), str(experiment.main)
    return {**document, "error": None}


def _broken_document(broken: BrokenExperiment) -> dict[str, Any]:
    return {"name": broken.name, "folder": str(broken.folder), "error": broken.error}

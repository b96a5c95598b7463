"""Starting runs: what was asked for is checked and written down, then the (first) run's agent is spawned.

TUI and CLI call this. Everything that can be wrong with a request is found here, before a folder is made; nothing
here needs torch, NVML or a slow call.
"""

from __future__ import annotations

import getpass
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import labtui
from labtui.catalog import parameters, sources
from labtui.catalog.manifest import Experiment
from labtui.machine import host, link
from labtui.runs import launch, masking, profile, spawn
from labtui.runs.folder import RunFolder, publish, stage, write_json
from labtui.runs.ladder import RUN_ID
from labtui.runs.records import QUEUED, Document, Limits, Request, Status

COMMAND = "command"
"""The name under which the user's own commands are kept."""
NO_LINK = "none"
"""Says that a run is on no shaped link, where its variant would be."""


class StartError(ValueError):
    """A run can't be started as asked. The message is one sentence."""


@dataclass(frozen=True)
class Options:
    """How to run, beside what to run."""

    device: str | None = None
    nproc: int | None = None
    link: str | None = None
    """A shaped link's rate, such as "1gbit", or "none"; None takes the variant's."""
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    """Another time limit than the experiment's own."""
    stall_s: float | None = None
    python: str | None = None
    """Another interpreter, in whose environment the ranks run."""
    share: bool = False
    queue: bool = False
    fail_fast: bool = False
    quiet_nccl: bool = False
    """Leave NCCL's log settings alone; then its paths are not known."""


def start(
    root: Path,
    experiment: Experiment,
    variants: Sequence[str],
    settings: Mapping[str, str],
    options: Options,
) -> list[RunFolder]:
    """Starts one run per variant ("" is the default one); several form a group, in which each starts the next.

    Returns at once. Raises StartError, CatalogError, LogsError, SpawnError: one sentence each, nothing started.
    """
    python = _interpreter(options.python, needs_torch=experiment.launch == "torchrun")
    requests = [_request(experiment, variant, settings, options, python) for variant in variants]
    git = _git(experiment.folder)
    requests = [replace(request, profile=profile.newest(root, request), git=git) for request in requests]
    return _publish(root, experiment.name, requests, options.environment)


def planned(root: Path, experiment: Experiment, variant: str, settings: Mapping[str, str], options: Options) -> str:
    """The command that `start` would have its agent start, for a shell; makes nothing. Raises StartError, CatalogError.

    Before it stands what labtui would set in its environment, but for what belongs to the run's own folder: the log of
    NCCL, and where the ranks report. Their output goes to `ranks` in the working folder instead.
    """
    python = _interpreter(options.python, needs_torch=experiment.launch == "torchrun")
    request = replace(_request(experiment, variant, settings, options, python), quiet_nccl=True)
    request = replace(request, profile=profile.newest(root, request))
    here = RunFolder(Path())
    ours = launch.worker_environment(os.environ, request, here, None)
    bookkeeping = {RUN_ID, "LABTUI_RUN_DIR", "LABTUI_AGENT_PID"}
    words = [
        f"{name}={value}" for name, value in ours.items() if name not in bookkeeping and os.environ.get(name) != value
    ]
    command = launch.real_command({}, replace(request, command=_command(request, here)))
    return shlex.join(["env", *words, *command] if words else command)


def start_command(root: Path, command: Sequence[str], options: Options, directory: Path | None = None) -> RunFolder:
    """Starts the user's own command under the same owner. Raises as `start`.

    Its argv is run as it is, without a shell, in `directory` (default: the working folder). It has no limits but those
    that were asked for.
    """
    directory = Path.cwd() if directory is None else directory
    if not command:
        raise StartError("no command after --: labtui run -- torchrun --nproc-per-node 2 train.py")
    program = str(directory / command[0]) if os.sep in command[0] else command[0]
    if shutil.which(program) is None:
        raise StartError(f"{command[0]} is no program that can be found here")
    masked = masking.mask_command(command)
    request = _base(COMMAND, options, sys.executable)
    request = replace(
        request,
        command=masked,
        launch=COMMAND,
        directory=str(directory),
        device=options.device,
        nproc=options.nproc,
        link=_link(options.link, options.device, None),
        limits=Limits(options.timeout_s, options.stall_s),
        git=_git(directory),
    )
    hidden = {launch.REAL_COMMAND: json.dumps(list(command))} if masked != tuple(command) else {}
    return _publish(root, COMMAND, [request], {**options.environment, **hidden})[0]


def rerun(root: Path, folder: RunFolder, settings: Mapping[str, str], options: Options) -> RunFolder:
    """Starts a run like the recorded one, with some parameters set anew. Raises as `start`; RecordError."""
    before = folder.request()
    environment = {name: value for name, value in before.environment.items() if not masking.is_masked(value)}
    options = replace(
        options,
        environment={**environment, **options.environment},
        timeout_s=options.timeout_s if options.timeout_s is not None else before.limits.timeout_s,
        stall_s=options.stall_s if options.stall_s is not None else before.limits.stall_s,
        device=options.device or before.device,
        nproc=options.nproc or before.nproc,
        link=options.link or (link.rate_text(before.link["rate_bits"]) if before.link else NO_LINK),
        python=options.python or (before.python if Path(before.python).exists() else None),
    )
    if before.launch == COMMAND:
        if settings:
            raise StartError(f"{folder.id} is a command of your own: it has no parameters to set")
        if any(map(masking.is_masked, before.command)):
            raise StartError(f"{folder.id} held secrets that were not stored: give its command again")
        directory = Path(before.directory) if before.directory is not None else None
        if directory is not None and not directory.is_dir():
            raise StartError(f"{folder.id} ran in {directory}, which is not there any more")
        return start_command(root, before.command, options, directory)
    experiment = sources.find(before.experiment)
    recorded = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in before.parameters.items()
    }
    known = {name: value for name, value in recorded.items() if name in {p.name for p in experiment.parameters}}
    return start(root, experiment, [before.variant], {**known, **settings}, options)[0]


def _request(
    experiment: Experiment, variant_name: str, settings: Mapping[str, str], options: Options, python: str
) -> Request:
    variant = experiment.variant(variant_name)
    gpus = host.gpu_count()
    device = parameters.choose_device(experiment, variant_name, options.device, gpus)
    if experiment.launch == "python":
        if options.nproc not in (None, 1):
            raise StartError(f"{experiment.name} is one process: --nproc does not apply")
        if options.link not in (None, NO_LINK):
            raise StartError(f"{experiment.name} is one process: --link does not apply")
        nproc = 1
    else:
        nproc = parameters.processes(experiment, variant_name, device, gpus, options.nproc)
    values = parameters.resolve(experiment, variant_name, device, settings)
    request = _base(experiment.name, options, python)
    return replace(
        request,
        variant=variant_name,
        parameters=values,
        environment={**request.environment, **variant.environment, **masking.mask_environment(options.environment)},
        nproc=nproc,
        device=device,
        link=_link(options.link or variant.link, device, nproc) if experiment.launch == "torchrun" else None,
        launch=experiment.launch,
        # The script's place and the run's folder are filled in when the folder is made.
        command=(str(experiment.main),),
        limits=Limits(
            experiment.limits.timeout_s if options.timeout_s is None else options.timeout_s,
            experiment.limits.stall_s if options.stall_s is None else options.stall_s,
        ),
        expect_failure=tuple(variant.expect_failure),
    )


def _link(asked: str | None, device: str | None, ranks: int | None) -> Document | None:
    """The shaped link that was asked for, as run.json has it; `ranks` is None for a command, which starts its own.

    It is laid out for a moment to know that it can be had. Raises StartError.
    """
    if asked in (None, NO_LINK):
        return None
    if device != "cpu":
        raise StartError(
            f"a link of {asked} can be had on cpu only (--device cpu): NCCL between GPUs would not go over it"
        )
    try:
        rate = link.parse_rate(asked)
        if ranks is None:
            return link.find_bus(rate, "a command of your own starts its ranks itself").document()
        return link.find(rate, ranks).document()
    except link.LinkError as error:
        raise StartError(str(error)) from None


def _base(name: str, options: Options, python: str) -> Request:
    """What all runs have in common."""
    environment = masking.recorded(os.environ) | masking.mask_environment(options.environment)
    return Request(
        id="",
        experiment=name,
        command=(),
        python=python,
        host=os.uname().nodename,
        user=_user(),
        uid=os.getuid(),
        created=time.time(),
        environment=environment,
        share=options.share,
        queue=options.queue,
        fail_fast=options.fail_fast,
        quiet_nccl=options.quiet_nccl,
        labtui=labtui.__version__,
    )


def _publish(root: Path, name: str, requests: Sequence[Request], environment: Mapping[str, str]) -> list[RunFolder]:
    """Makes all folders, queued, then spawns the first one's agent. Raises LogsError, SpawnError."""
    staged = [stage(root, name, request.created) for request in requests]
    group = staged[0].id if len(staged) > 1 else None
    for position, (folder, request) in enumerate(zip(staged, requests, strict=True)):
        following = staged[position + 1].id if position + 1 < len(staged) else None
        command = _command(request, RunFolder(root / folder.id))
        request = replace(request, id=folder.id, group=group, next=following, command=command)
        write_json(folder.request_file, request.document())
        write_json(folder.status_file, Status(state=QUEUED, created=request.created).document())
    # The last of a group first: whoever sees a run also finds those that follow it.
    folders = [publish(folder) for folder in reversed(staged)][::-1]
    try:
        spawn.spawn(folders[0], launch.starter_environment(os.environ, environment))
    except OSError:
        for folder in folders:
            shutil.rmtree(folder.path, ignore_errors=True)
        raise
    return folders


def _command(request: Request, folder: RunFolder) -> tuple[str, ...]:
    if request.launch == COMMAND:
        return request.command
    script = Path(request.command[0])
    if request.launch == "python":
        return launch.python_command(request.python, script, request.parameters)
    return launch.torchrun_command(
        request.python, script, request.nproc or 1, request.parameters, folder.ranks, request.link
    )


def _interpreter(asked: str | None, *, needs_torch: bool) -> str:
    """The interpreter to run with; it must have torch. Raises StartError."""
    advice = "install torch there (pip install torch), or name another interpreter with --python"
    if asked is None:
        # Finding a module's place does not import it.
        if needs_torch and importlib.util.find_spec("torch") is None:
            raise StartError(f"torch is missing in {sys.executable}: {advice}; runs can be reviewed without it")
        return sys.executable
    python = shutil.which(Path(asked).expanduser())
    if python is None:
        raise StartError(f"--python {asked}: there is no such program")
    probe = "import importlib.util as u, sys; print(*sys.version_info[:2], u.find_spec('torch') is not None)"
    try:
        done = subprocess.run([python, "-c", probe], capture_output=True, text=True, timeout=20, check=False)
        major, minor, has_torch = done.stdout.split()
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise StartError(f"--python {asked}: that is no Python interpreter") from None
    if (int(major), int(minor)) < (3, 10):
        raise StartError(f"--python {asked}: it is Python {major}.{minor}, experiments need 3.10 or newer")
    if needs_torch and has_torch != "True":
        raise StartError(f"torch is missing in {python}: {advice}")
    return str(Path(python).absolute())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _git(folder: Path) -> Document | None:
    """The commit of the checkout that `folder` is in, and whether it has changes; None outside of one."""
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return None
    answers = []
    for arguments in (["rev-parse", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]):
        try:
            # A large checkout may take long to look at: then it is unknown rather than waited for.
            done = subprocess.run(
                # Without what the checkout's own settings would have git start.
                ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments],
                capture_output=True,
                text=True,
                timeout=0.5,
                check=False,
            )
            answers.append(done.stdout.strip() if done.returncode == 0 else None)
        except (OSError, subprocess.TimeoutExpired):
            answers.append(None)
    commit, changes = answers
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}

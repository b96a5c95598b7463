"""`labtui memory`: what a training takes: memory on each GPU, what to cut, what the cuts send, FLOPs, GPU-hours."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass
from typing import Any

from labtui.cli import output

MOST = 2.0**53
"""Larger counts are typing errors, and no float holds them exactly."""
GB, GIB = 1e9, 2.0**30
_UNITS = {"b": 1.0} | {
    f"{letter}{infix}b": base**power
    for power, letter in enumerate("kmgt", 1)
    for infix, base in (("", 1000.0), ("i", 1024.0))
}
_PRECISIONS = ("mixed", "mixed-fp32-grads", "mixed-both-grads", "fp32", "bf16")
_OPTIMIZERS = ("adam", "adam-bf16", "adam-8bit", "momentum", "sgd")


class TrainingError(ValueError):
    """What was asked for can't be computed. The message is one sentence."""


@dataclass(frozen=True)
class Request:
    """What was asked for: the training, and what of it is only words."""

    training: Any
    """A `theory.memory.rank.Training`."""
    model: str | None
    source: str | None
    trainable: float
    zero: str | None
    """The stage that was named, if one was."""
    memory: float | None
    """Bytes of one GPU."""
    memory_source: str | None


def configure(parser: argparse.ArgumentParser, command: str) -> None:
    add = parser.add_argument
    group = parser.add_argument_group("the model: one of --params, --model, or --layers, --hidden and --heads")
    group.add_argument("--params", type=number, metavar="N", help="parameters, as in 7.5e9")
    group.add_argument("--model", metavar="NAME", help="a published model, as in llama-7b; another name lists them")
    for name, words in (
        ("layers", "layers"),
        ("hidden", "features of a token"),
        ("heads", "attention heads"),
        ("kv-heads", "heads of keys and values (makes it Llama-like)"),
        ("ffn", "width of the gated MLP (makes it Llama-like)"),
        ("vocab", "vocabulary (default: 51200)"),
    ):
        group.add_argument(f"--{name}", type=count, metavar="N", help=words)
    group = parser.add_argument_group("the layout: GPUs = dp x tp x pp")
    group.add_argument("--gpus", type=count, metavar="N", help="all GPUs (default: dp x tp x pp)")
    for name, words in (
        ("dp", "data-parallel ranks (default: what the GPUs leave)"),
        ("tp", "tensor-parallel ranks"),
        ("pp", "pipeline stages"),
        ("ep", "groups of experts, within dp"),
        ("interleave", "chunks of layers on each stage"),
        ("micro-batches", "of a step, on each data-parallel rank (default: pp)"),
    ):
        group.add_argument(f"--{name}", type=count, metavar="N", help=words)
    group.add_argument("--sp", action="store_true", help="sequence parallelism beside --tp")
    group.add_argument("--gpipe", action="store_true", help="all forwards first, instead of 1F1B")
    group.add_argument("--zero", choices=("0", "1", "2", "3"), help="the stage that cuts are looked for (3: FSDP)")
    group = parser.add_argument_group("the training")
    group.add_argument("--seq", type=count, metavar="N", help="tokens of a sequence")
    group.add_argument("--micro-batch", type=count, metavar="N", help="sequences at a time on one GPU")
    group.add_argument("--recompute", choices=("none", "selective", "full"), default="none", help="default: none")
    group.add_argument("--fused-attention", action="store_true", help="a kernel that never stores the scores")
    group.add_argument("--no-dropout", action="store_true", help="of GPT-like models: no masks are kept")
    group.add_argument("--precision", choices=_PRECISIONS, default="mixed", help="default: mixed (2 + 2 + 4 of 12)")
    group.add_argument("--optimizer", choices=_OPTIMIZERS, default="adam", help="default: adam (8 bytes)")
    group.add_argument("--offload", choices=("none", "optimizer", "all"), default="none", help="to the host's memory")
    group.add_argument("--lora", type=count, metavar="R", help="train adapters of this rank only")
    group.add_argument("--lora-on", default="q,v", metavar="LIST", help="of q,k,v,o,mlp (default: q,v)")
    group.add_argument("--ema", choices=("none", "gpu", "cpu"), default="none", help="an fp32 average of the weights")
    group = parser.add_argument_group("the GPU")
    peak = group.add_mutually_exclusive_group()
    peak.add_argument("--gpu", metavar="NAME", help="a GPU that is known, such as 'H100 SXM'")
    peak.add_argument("--peak-tflops", type=number, metavar="T", help="the peak of one GPU, in 1e12 FLOP/s")
    group.add_argument("--gpu-memory", type=size, metavar="SIZE", help="32GB (1e9 bytes each) or 32GiB (2**30)")
    group.add_argument("--tokens", type=number, metavar="D", help="tokens of the whole training: FLOPs by 6ND")
    group.add_argument("--mfu", type=number, metavar="X", help="share of the peak that is used, such as 0.4: GPU-hours")
    add("--axes", action="store_true", help="what each axis of parallelism cuts and sends")
    add("--fits", action="store_true", help="which models fit on this machine's GPUs, or on --gpus and --gpu-memory")
    add("--json", action="store_true", help="one JSON document; sizes in bytes")


def main(arguments: argparse.Namespace) -> int:
    try:
        document, lines = _answer(arguments)
    except TrainingError:
        raise
    except ValueError as error:  # theory refuses in one sentence
        raise TrainingError(str(error)) from None
    if arguments.json:
        output.print_json(document)
    else:
        output.print_lines(lines)
    return 0


def _answer(arguments: argparse.Namespace) -> tuple[dict[str, Any], list[str]]:
    _above_0(arguments)
    if arguments.fits:
        from labtui.cli import memory_fits

        return memory_fits.answer(arguments)
    asked = request(arguments)
    if arguments.axes:
        from labtui.cli import memory_axes

        return memory_axes.answer(asked)
    from labtui.cli import memory_hours, memory_table

    document = memory_table.document(asked)
    lines = memory_table.lines(asked, document)
    if arguments.tokens is not None or arguments.mfu is not None:
        hours = memory_hours.document(arguments, asked)
        document |= hours
        lines = [*memory_hours.lines(hours), "", *lines]
    return document, lines


# What was typed -----------------------------------------------------------------------------------------------------


def number(text: str) -> float:
    """A number. Whether it can be is said later, with its option's name."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number, as 7.5e9 is") from None


def _above_0(arguments: argparse.Namespace) -> None:
    """Raises TrainingError."""
    for name in ("params", "tokens", "peak_tflops"):
        value = getattr(arguments, name)
        if value is not None and not 0 < value < math.inf:
            raise TrainingError(f"--{name.replace('_', '-')} is {value:g}, a number above 0 expected")
        if value is not None and value > 1e18:
            raise TrainingError(f"--{name.replace('_', '-')} is {value:g}, at most 1e18 expected")


def count(text: str) -> int:
    """A whole number above 0; 1e6 is one."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (1 <= value <= MOST and value == int(value)):
        raise argparse.ArgumentTypeError(f"{text} given, a whole number of at least 1 expected")
    return int(value)


def size(text: str) -> float:
    """Bytes of "32GB" or "32GiB"; a unit is needed, since the two differ by 7 percent."""
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([kmgt]?i?b)\s*", text, re.IGNORECASE)
    try:
        value = float(match[1]) * _UNITS[match[2].lower()] if match else math.nan
    except (ValueError, KeyError):
        value = math.nan
    if not 0 < value <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, as 32GB (32e9 bytes) and 32GiB (32 x 2**30) are")
    return value


def request(arguments: argparse.Namespace) -> Request:
    """The training that the arguments describe. Raises TrainingError, ValueError."""
    from labtui.theory import known_models, memory
    from labtui.theory.memory.adapters import lora_parameters
    from labtui.theory.memory.rank import Training

    shape, source = _shape(arguments)
    parameters = arguments.params
    if parameters is None:
        if shape is None:
            raise TrainingError("which model: --params, --model, or --layers, --hidden and --heads?")
        parameters = known_models.parameters(shape)
    if arguments.micro_batch is not None and arguments.seq is None:
        raise TrainingError("--micro-batch counts sequences, so --seq is needed too: how many tokens one has")
    if arguments.micro_batch is not None and shape is None:
        raise TrainingError("activations need a shape beside --params: --layers, --hidden and --heads")
    adapters = 0
    if arguments.lora is not None:
        if shape is None:
            raise TrainingError("--lora needs a shape: --model, or --layers, --hidden and --heads")
        adapters = lora_parameters(shape, arguments.lora, tuple(arguments.lora_on.split(",")))
    training = Training(
        parameters=parameters,
        layout=layout(arguments),
        recipe=memory.recipe(arguments.precision, arguments.optimizer),
        shape=shape,
        sequence=arguments.seq,
        micro_batch=arguments.micro_batch,
        recompute=arguments.recompute,
        fused_attention=arguments.fused_attention,
        dropout=not arguments.no_dropout,
        adapters=adapters,
        offload=arguments.offload,
        ema=arguments.ema,
    )
    gpu_memory, memory_source = gpu_memory_of(arguments)
    zero = memory.STAGES[int(arguments.zero)] if arguments.zero is not None else None
    return Request(training, arguments.model, source, adapters or parameters, zero, gpu_memory, memory_source)


def layout(arguments: argparse.Namespace) -> Any:
    """The `Layout`; of --gpus and --dp each follows from the other. Raises TrainingError where they contradict."""
    from labtui.theory.memory.layout import Layout

    tensor, pipeline = arguments.tp or 1, arguments.pp or 1
    data = arguments.dp
    if arguments.gpus is not None:
        if arguments.gpus % (tensor * pipeline):
            raise TrainingError(f"{arguments.gpus} GPUs can't be cut into tp {tensor} x pp {pipeline} evenly")
        left = arguments.gpus // (tensor * pipeline)
        if data is not None and data != left:
            raise TrainingError(f"dp {data} x tp {tensor} x pp {pipeline} are not the {arguments.gpus} of --gpus")
        data = left
    return Layout(
        data=data or 1,
        tensor=tensor,
        pipeline=pipeline,
        expert=arguments.ep or 1,
        sequence_parallel=arguments.sp,
        interleave=arguments.interleave or 1,
        micro_batches=arguments.micro_batches,
        gpipe=arguments.gpipe,
    )


def gpu_memory_of(arguments: argparse.Namespace) -> tuple[float | None, str | None]:
    """Bytes of a GPU, and how we know. Raises TrainingError for a GPU that is in no table."""
    if arguments.gpu_memory is not None:
        return arguments.gpu_memory, "as told"
    if arguments.gpu is None:
        return None, None
    model = gpu_named(arguments.gpu)
    return model.memory_gb * GB, f"{model.name}: {model.source}"


def gpu_named(name: str) -> Any:
    """The `GpuModel` of that name. Raises TrainingError."""
    from labtui.theory import hardware

    model = hardware.gpu_model(name)
    if model is None:
        known = ", ".join(gpu.name for gpu in hardware.GPUS)
        raise TrainingError(f"no GPU {name!r} in the table: {known}; or give --peak-tflops and --gpu-memory")
    return model


def _shape(arguments: argparse.Namespace) -> tuple[Any, str | None]:
    """The model's shape, if it is given, and where it comes from."""
    from labtui.theory import known_models
    from labtui.theory.llama import LlamaShape
    from labtui.theory.models import GptShape

    own = {name: getattr(arguments, name) for name in ("layers", "hidden", "heads")}
    more = {name: getattr(arguments, name) for name in ("kv_heads", "ffn", "vocab")}
    if arguments.model is not None:
        if arguments.params is not None or any((*own.values(), *more.values())):
            raise TrainingError("--model has its parameters and shape, so neither --params nor --layers and others fit")
        found = known_models.known(arguments.model)
        return found.shape, found.source
    if not any((*own.values(), *more.values())):
        return None, None
    missing = [name for name, value in own.items() if value is None]
    if missing:
        raise TrainingError(f"a shape needs --layers, --hidden and --heads: --{missing[0]} is missing")
    vocabulary = arguments.vocab or 51200
    context = arguments.seq or 2048
    layers, width, heads = own["layers"], own["hidden"], own["heads"]
    if more["kv_heads"] is None and more["ffn"] is None:
        return GptShape(layers, heads, width, context, vocabulary, tied=True), "as told: GPT-like, tied"
    mlp = more["ffn"] or 4 * width
    shape = LlamaShape(layers, heads, width, mlp, context, vocabulary, more["kv_heads"] or 0)
    return shape, "as told: Llama-like, untied"

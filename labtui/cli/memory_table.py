"""Memory on each GPU under DDP and the ZeRO stages, as a document and as a table with bars. Part of `labtui memory`."""

from __future__ import annotations

from typing import Any

from labtui.cli.memory import GB, GIB, Request
from labtui.theory.llama import LlamaShape
from labtui.theory.memory import STAGES
from labtui.theory.memory.fits import gpus_needed, largest_micro_batch, remedy
from labtui.theory.memory.rank import RankMemory, Training, on_rank

NAMES = {"ddp": "DDP", "zero1": "ZeRO-1", "zero2": "ZeRO-2", "zero3": "ZeRO-3"}
_WIDTH = 80
_BAR = 56


def document(asked: Request) -> dict[str, Any]:
    """Everything in bytes. `per_gpu` has the fullest pipeline stage's GPU. Raises ValueError."""
    training, layout = asked.training, asked.training.layout
    per_gpu = {zero: on_rank(training, zero) for zero in STAGES}
    return {
        "parameters_count": training.parameters,
        "trainable_count": asked.trainable,
        "model": asked.model,
        "model_source": asked.source,
        "layout": {
            "gpus": layout.gpus,
            "dp": layout.data,
            "tp": layout.tensor,
            "pp": layout.pipeline,
            "ep": layout.expert,
            "sequence_parallel": layout.sequence_parallel,
            "interleave": layout.interleave,
            "micro_batches": layout.micro_batches,
        },
        "bytes_per_parameter": {
            "parameters": training.recipe.parameters,
            "gradients": training.recipe.gradients,
            "optimizer": training.recipe.optimizer,
            "name": training.recipe.name,
            "source": training.recipe.source,
        },
        "sequence": training.sequence,
        "micro_batch": training.micro_batch,
        "recompute": training.recompute,
        "fused_attention": training.fused_attention,
        "activations_formula": _formula(training),
        "gpu_memory": asked.memory,
        "gpu_memory_source": asked.memory_source,
        "per_gpu": {zero: _one(asked, zero, memory) for zero, memory in per_gpu.items()},
        "fit": _fit(asked, per_gpu),
    }


def _one(asked: Request, zero: str, memory: RankMemory) -> dict[str, Any]:
    found: dict[str, Any] = {
        "parameters": memory.state.parameters,
        "gradients": memory.state.gradients,
        "optimizer": memory.state.optimizer,
        "activations": memory.activations,
        "total": memory.total,
    }
    if asked.training.ema == "gpu":
        found["ema"] = memory.ema
    beyond = memory.beyond
    found |= {
        "stage": memory.stage,
        "beyond": {"logits": beyond.logits, "gathered": beyond.gathered, "recomputed": beyond.recomputed},
        "needed": memory.needed,
    }
    host = memory.host
    if host.total:
        found["host"] = {
            "parameters": host.parameters,
            "gradients": host.gradients,
            "optimizer": host.optimizer,
            "ema": host.ema,
            "total": host.total,
        }
    if asked.memory is not None:
        found["fits"] = memory.needed <= asked.memory
        if asked.training.shape is not None and asked.training.sequence is not None:
            found["largest_micro_batch"] = largest_micro_batch(asked.training, zero, asked.memory)
            alone = largest_micro_batch(asked.training, zero, asked.memory, beyond=False)
            found["largest_micro_batch_by_total"] = alone
    return found


def chosen(asked: Request) -> str:
    """The stage that is asked about: the one that was named, else DDP."""
    return asked.zero or "ddp"


def _fit(asked: Request, per_gpu: dict[str, RankMemory]) -> dict[str, Any] | None:
    """Whether the chosen stage fits, and which cut would make it; None where no memory is known."""
    if asked.memory is None:
        return None
    zero = chosen(asked)
    if per_gpu[zero].needed <= asked.memory:
        return {"zero": zero, "fits": True, "cuts": [], "needed": per_gpu[zero].needed, "gpus_with_zero3": None}
    found = remedy(asked.training, zero, asked.memory)
    return {
        "zero": zero,
        "fits": False,
        "cuts": list(found.cuts) if found else None,
        "needed": found.needed if found else None,
        "gpus_with_zero3": gpus_needed(asked.training, asked.memory),
    }


def _formula(training: Training) -> str | None:
    if training.sequence is None or training.micro_batch is None:
        return None
    if training.recompute == "full":
        return "the layers' inputs, 2 s b h a layer (arXiv 2205.05198, table 2)"
    if isinstance(training.shape, LlamaShape):
        return "Llama-like, counted by the method of arXiv 2205.05198, section 4.1 (derived, not printed)"
    if not training.dropout:
        return "arXiv 2205.05198, table 2, without dropout's masks and copies"
    return "arXiv 2205.05198, table 2"


# For people ---------------------------------------------------------------------------------------------------------


def lines(asked: Request, found: dict[str, Any]) -> list[str]:
    """The same for people, in lines of 80 cells."""
    text = [*_head(asked), "", *_table(asked, found), "", *_bars(asked, found)]
    closing = _notes(asked, found) + _verdict(asked, found)
    return [*text, "", *closing]


def _head(asked: Request) -> list[str]:
    training, recipe, layout = asked.training, asked.training.recipe, asked.training.layout
    name = f"{asked.model}: " if asked.model else ""
    text = [f"{name}{training.parameters:,.0f} parameters"]
    if training.adapters:
        share = training.adapters / training.parameters
        text.append(f"{training.adapters:,.0f} more in adapters, and only these are trained ({share:.2%})")
    each = f"{recipe.parameters:g} weights + {recipe.gradients:g} gradients + {recipe.optimizer:.5g} optimizer"
    text.append(f"bytes for each: {each} ({recipe.name})")
    gpus = "1 GPU" if layout.gpus == 1 else f"{layout.gpus:,} GPUs"
    spread = f"{gpus}: data {layout.data} x tensor {layout.tensor} x pipeline {layout.pipeline}"
    spread += f", experts {layout.expert}" if layout.expert > 1 else ""
    spread += ", sequence parallel" if layout.sequence_parallel else ""
    text.append(spread)
    if training.sequence is not None:
        batch = "" if training.micro_batch is None else f", {training.micro_batch} at a time"
        text.append(f"sequences of {training.sequence:,} tokens{batch}, recomputation: {training.recompute}")
    return text


def _table(asked: Request, found: dict[str, Any]) -> list[str]:
    """GB of the fullest GPU."""
    header = ["GB per GPU", "weights", "grads", "optimizer", "activ.", "total", "needed"]
    if asked.training.ema == "gpu":
        header.insert(5, "EMA")
    if asked.memory is not None:
        header.append("fits")
    rows = [header]
    for zero, one in found["per_gpu"].items():
        row = [NAMES[zero], *(_gb(one[key]) for key in ("parameters", "gradients", "optimizer", "activations"))]
        if "ema" in one:
            row.append(_gb(one["ema"]))
        row += [_gb(one["total"]), _gb(one["needed"])]
        if "fits" in one:
            row.append("yes" if one["fits"] else "no")
        rows.append(row)
    widths = [max(len(row[place]) for row in rows) for place in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _gb(size: float | None) -> str:
    """GB with about four digits; "-" where it isn't known."""
    if size is None:
        return "-"
    gb = size / GB
    if gb >= 100:
        return f"{gb:,.0f}" if gb >= 1000 else f"{gb:.4g}"
    return f"{gb:.2f}" if gb >= 0.1 or gb == 0 else f"{gb:.1g}"


def _bars(asked: Request, found: dict[str, Any]) -> list[str]:
    """A bar for each stage: a letter for each part, `+` for what is beyond, `!` where the GPU's memory ends."""
    most = max(one["needed"] for one in found["per_gpu"].values())
    full = max(most, asked.memory or 0.0) or 1.0
    text = []
    for zero, one in found["per_gpu"].items():
        parts = [
            ("w", one["parameters"]),
            ("g", one["gradients"]),
            ("o", one["optimizer"]),
            ("a", one["activations"] or 0.0),
            ("e", one.get("ema", 0.0)),
            ("+", one["needed"] - one["total"]),
        ]
        bar, end = "", 0.0
        for letter, part in parts:
            end += part
            bar += letter * (round(end / full * _BAR) - len(bar))
        bar = bar.ljust(_BAR)
        if asked.memory is not None:
            limit = min(_BAR - 1, round(asked.memory / full * _BAR))
            bar = bar[:limit] + "!" + bar[limit + 1 :]
        text.append(f"{NAMES[zero]:<7} |{bar}|")
    legend = "w weights, g gradients, o optimizer, a activ."
    legend += ", e EMA" if asked.training.ema == "gpu" else ""
    text.append(f"{'':<7}  {legend}, + beyond{', ! full' if asked.memory else ''}")
    return text


def _notes(asked: Request, found: dict[str, Any]) -> list[str]:
    training = asked.training
    text = []
    zero3 = found["per_gpu"]["zero3"]
    logits, again, gathered = (zero3["beyond"][key] for key in ("logits", "recomputed", "gathered"))
    if logits:
        larger = (
            f"the larger of logits {_gb(logits)} and a layer again {_gb(again)}" if again else f"logits {_gb(logits)}"
        )
        text.append(f"beyond the total, GB: {larger}")
    if gathered:
        text.append(f"beyond the total, GB: layers that ZeRO-3 gathers {_gb(gathered)}")
    if training.layout.pipeline > 1 and training.shape is not None:
        stages = sorted({one["stage"] + 1 for one in found["per_gpu"].values()})
        text.append(f"the fullest pipeline stage: {', '.join(map(str, stages))} of {training.layout.pipeline}")
    if zero3["activations"] is None:
        text.append("activations are left out: they need a shape, --seq and --micro-batch")
    elif training.recompute == "none" and not training.fused_attention:
        text.append("scores of attention are stored; a fused kernel (--fused-attention) never does")
    if logits and training.recompute == "full" and not again:
        text.append("what a layer of this kind takes while it is computed again isn't known: left out")
    if training.adapters and zero3["activations"] is not None:
        text.append("frozen matrices need no gradients: fewer activations may be kept")
    host = {zero: one["host"]["total"] for zero, one in found["per_gpu"].items() if "host" in one}
    if host:
        each = ", ".join(f"{NAMES[zero]} {_gb(size)}" for zero, size in host.items())
        text.append(f"on the host for each GPU, GB: {each}")
    return text


def _verdict(asked: Request, found: dict[str, Any]) -> list[str]:
    fit = found["fit"]
    if fit is None:
        return ["GB is 1e9 bytes; --gpu-memory 80GB or 80GiB says what fits"]
    assert asked.memory is not None
    room = f"{asked.memory / GB:.4g} GB = {asked.memory / GIB:.4g} GiB"
    text = [f"a GPU has {room} (1e9 and 2**30 bytes); CUDA itself takes some"]
    name = NAMES[fit["zero"]]
    batch = found["per_gpu"][fit["zero"]].get("largest_micro_batch")
    if fit["fits"]:
        text.append(f"{name} fits, {_gb(asked.memory - fit['needed'])} GB are left")
    else:
        over = found["per_gpu"][fit["zero"]]["needed"] - asked.memory
        text.append(f"{name} does not fit, by {_gb(over)} GB")
        if fit["cuts"]:
            together = ", together" if len(fit["cuts"]) > 1 else ""
            text.append(f"it would with{together} ({_gb(fit['needed'])} GB):")
            text += [f"  {cut}" for cut in fit["cuts"]]
        else:
            text.append("no cut that is known here would make it fit on these GPUs")
        if fit["gpus_with_zero3"]:
            text.append(f"or with ZeRO-3 on {fit['gpus_with_zero3']:,} GPUs")
    if batch is not None:
        alone = found["per_gpu"][fit["zero"]]["largest_micro_batch_by_total"]
        text.append(f"largest micro-batch under {name}: {batch:,}; by the total alone: {alone:,}")
    return text

"""How a run may be spread over processes: whole models (DDP), or shards of one (FSDP2)."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from torch import nn
from transformers import TrainingArguments

_INSTEAD = "train with DDP (`accelerate launch`) or FSDP2 (`--fsdp`)"
# accelerate's names of the numbers of processes that share one layer or one text
_SIZES = {"tp_size": "tensor", "cp_size": "context", "sp_size": "sequence"}


def check_parallelism(arguments: TrainingArguments) -> None:
    """Refuse what the models cannot be trained with, whether a flag or `accelerate launch` asks for it.

    Raises:
        ValueError: DeepSpeed, FSDP's first version, or tensor, context or sequence parallelism is asked for.
    """
    if arguments.deepspeed or _is_set("ACCELERATE_USE_DEEPSPEED"):
        raise ValueError(f"DeepSpeed is not supported: {_INSTEAD}")
    if asks_for_fsdp(arguments) and _fsdp_version(arguments) == 1:
        raise ValueError("FSDP version 1 is not supported: use version 2, which shards each weight on its own")
    for size, kind in _SIZES.items():
        if _parallel_size(arguments, size) > 1:
            raise ValueError(f"{kind} parallelism ({size} above 1) is not supported: {_INSTEAD}")


def asks_for_fsdp(arguments: TrainingArguments) -> bool:
    """Whether a flag or `accelerate launch` asks for FSDP."""
    return bool(arguments.fsdp) or _is_set("ACCELERATE_USE_FSDP")


def name_shared_modules_once(model: nn.Module) -> None:
    """Let the model's state dict name the weights of a module once, although several modules hold it.

    torch gathers the weights of shards under all of their names, but looks for each module under its first name only
    when it gives them back to shards, and fails on the others.
    """
    first = {module: name for name, module in model.named_modules()}
    aliases = {
        f"{name}.": f"{first[module]}."
        for name, module in model.named_modules(remove_duplicate=False)
        if name != first[module]
    }

    def drop(module, state_dict, prefix, local_metadata):
        for name in list(state_dict):
            if name.removeprefix(prefix).startswith(tuple(aliases)):
                del state_dict[name]

    def fill(module, state_dict, prefix, *args):
        for alias, name in aliases.items():
            found = [key for key in state_dict if key.startswith(prefix + name)]
            state_dict |= {prefix + alias + key.removeprefix(prefix + name): state_dict[key] for key in found}

    model.register_state_dict_post_hook(drop)
    model.register_load_state_dict_pre_hook(fill)


def _fsdp_version(arguments: TrainingArguments) -> int:
    if arguments.fsdp:
        config = arguments.fsdp_config or {}
        if isinstance(config, str):
            config = json.loads(config if config.startswith("{") else Path(config).read_text(encoding="utf-8"))
        return int(config.get("version", config.get("fsdp_version", 2)))
    return int(os.environ.get("FSDP_VERSION", "1"))


def _parallel_size(arguments: TrainingArguments, name: str) -> int:
    config = arguments.parallelism_config
    if isinstance(config, Mapping):
        return int(config.get(name) or 1)
    if config is not None:
        return int(getattr(config, name, None) or 1)
    return int(os.environ.get(f"PARALLELISM_CONFIG_{name.upper()}", "1"))


def _is_set(name: str) -> bool:
    return os.environ.get(name, "false").lower() == "true"

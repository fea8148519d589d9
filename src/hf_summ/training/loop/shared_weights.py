"""Weights that a model holds under several names: as NEFTune, FSDP and the loading of checkpoints need them."""

from functools import partial

import torch
from torch import nn
from transformers import PreTrainedModel


def expect_tied_weights_once(model: nn.Module, result) -> None:
    """Remove tied weights from the missing keys of loading: a checkpoint contains them once."""
    tied = getattr(model, "all_tied_weights_keys", {})
    result.missing_keys[:] = [name for name in result.missing_keys if name not in tied]


def share_modules(model: nn.Module) -> None:
    """Replace embeddings with one weight by one module: FSDP2 shards no weight that several of its units hold."""
    first: dict[torch.Tensor, nn.Module] = {}
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is nn.Embedding:
                setattr(parent, name, first.setdefault(module.weight, module))


def share_noise(model: PreTrainedModel) -> None:
    """Let all embeddings of words run the hook of NEFTune: transformers adds it to one that BART and T5 never call."""
    words = model.get_input_embeddings()
    for module in model.modules():
        is_tied = isinstance(module, nn.Embedding) and module.weight is words.weight and module is not words
        if is_tied and not module._forward_hooks:
            module.register_forward_hook(partial(_run_hooks, words), with_kwargs=True)


def _run_hooks(owner: nn.Module, module, args, kwargs, output):
    """Run the forward hooks of `owner`, which may read settings from it, on another module's output."""
    for number, hook in owner._forward_hooks.items():
        # a hook on all modules runs once
        if hook in module._forward_hooks.values():
            continue
        further = (kwargs,) if number in owner._forward_hooks_with_kwargs else ()
        changed = hook(owner, args, *further, output)
        output = output if changed is None else changed
    return output


def sharded_units(model: PreTrainedModel) -> list[str]:
    """The classes of a model's blocks without the words' embedding, which FSDP2 may shard one by one."""
    words = model.get_input_embeddings()
    holders = {type(module).__name__ for module in model.modules() if words in module.modules()}
    return sorted(set(model._no_split_modules or ()) - holders)


def name_shared_modules_once(model: nn.Module) -> None:
    """Name the weights of a shared module once in the model's state dict.

    torch gathers sharded weights under all of their names. When it distributes them to shards again, it looks up each
    module under its first name, and fails on the others.
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
            keys = [key for key in state_dict if key.startswith(prefix + name)]
            state_dict |= {prefix + alias + key.removeprefix(prefix + name): state_dict[key] for key in keys}

    model.register_state_dict_post_hook(drop)
    model.register_load_state_dict_pre_hook(fill)

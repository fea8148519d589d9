"""Weights that a model holds under several names, made ready for NEFTune, FSDP and the loading of checkpoints.

A model ties weights if several modules hold one tensor, such as the embeddings of encoder and decoder.
"""

from functools import partial

import torch
from torch import nn
from transformers import PreTrainedModel


def expect_tied_weights_once(model: nn.Module, result) -> None:
    """Remove tied weights from the missing keys of loading, as a checkpoint contains them once.

    It is a hook after `load_state_dict`, whose result it changes.
    """
    tied = getattr(model, "all_tied_weights_keys", {})
    result.missing_keys[:] = [name for name in result.missing_keys if name not in tied]


def share_modules(model: nn.Module) -> None:
    """Replace all embeddings that hold the same weight by the first of them.

    FSDP2 cannot shard a weight that several modules hold.
    """
    module_of_weight: dict[torch.Tensor, nn.Module] = {}
    for parent in list(model.modules()):
        for name, module in list(parent.named_children()):
            if type(module) is nn.Embedding:
                first_module = module_of_weight.setdefault(module.weight, module)
                setattr(parent, name, first_module)


def share_noise(model: PreTrainedModel) -> None:
    """Let all embeddings of the words' weight run NEFTune's hook, which adds noise to embeddings during training.

    transformers adds the hook to the module of `get_input_embeddings()`. BART and T5 never call that module. They call
    further embeddings, which hold the same weight.
    """
    word_embedding = model.get_input_embeddings()
    for module in model.modules():
        if not isinstance(module, nn.Embedding) or module is word_embedding:
            continue
        # an embedding with a hook was reached by an earlier call
        is_tied = module.weight is word_embedding.weight
        if is_tied and not module._forward_hooks:
            module.register_forward_hook(partial(_run_hooks, word_embedding), with_kwargs=True)


def _run_hooks(owner: nn.Module, module: nn.Module, args, kwargs, output):
    """A forward hook of `module`, which runs the forward hooks of `owner` on the output of `module`.

    Each hook gets `owner` as its module, because the hook may read settings from it.
    """
    for hook_id, hook in owner._forward_hooks.items():
        # a hook that was later registered with `module` as well has already run
        if hook in module._forward_hooks.values():
            continue
        if hook_id in owner._forward_hooks_with_kwargs:
            changed = hook(owner, args, kwargs, output)
        else:
            changed = hook(owner, args, output)
        if changed is not None:
            output = changed
    return output


def sharded_units(model: PreTrainedModel) -> list[str]:
    """The names of classes whose modules FSDP2 may shard one by one, as they do not hold the embedding of words."""
    word_embedding = model.get_input_embeddings()
    holders = set()
    for module in model.modules():
        if word_embedding in module.modules():
            holders.add(type(module).__name__)
    return sorted(set(model._no_split_modules or ()) - holders)


def name_shared_modules_once(model: nn.Module) -> None:
    """Let the model's state dict name each weight of a shared module once, and let loading accept such a state dict.

    torch gathers sharded weights under all of their names. When it distributes the weights to shards again, it looks up
    each module under its first name, and fails on further names.

    Args:
        model: the model, which gets a hook after `state_dict` and a hook before `load_state_dict`.
    """
    first_names = {module: name for name, module in model.named_modules()}
    # beginning of a weight's further name -> beginning of its first name
    aliases = {}
    for name, module in model.named_modules(remove_duplicate=False):
        first_name = first_names[module]
        if name != first_name:
            aliases[f"{name}."] = f"{first_name}."

    def drop_aliases(module, state_dict, prefix, local_metadata):
        """Remove the further names of weights from a state dict that the model has just made."""
        for key in list(state_dict):
            if key.removeprefix(prefix).startswith(tuple(aliases)):
                del state_dict[key]

    def add_aliases(module, state_dict, prefix, *args):
        """Add the further names of weights to a state dict that is about to be loaded, as loading expects them."""
        for alias, first_name in aliases.items():
            # a list, as the loop adds keys
            for key in list(state_dict):
                if key.startswith(prefix + first_name):
                    parameter_name = key.removeprefix(prefix + first_name)
                    state_dict[prefix + alias + parameter_name] = state_dict[key]

    model.register_state_dict_post_hook(drop_aliases)
    model.register_load_state_dict_pre_hook(add_aliases)

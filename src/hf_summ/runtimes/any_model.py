"""What differs between sequence-to-sequence models: names of inputs, positions, global attention, prefixes.

For a fast command line, this module imports neither torch nor transformers.
"""

import inspect
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig

# an input of LED
GLOBAL_MASK = "global_attention_mask"


def input_names(model: Any) -> Collection[str] | None:
    """The names of the inputs of a model's `forward`; None if it is in a wrapper that does not name them.

    Compiled models and adapters wrap a model: their `forward` accepts any input, but the model's own may not.
    """
    # wrappers pass on the bound method `generate` of the model
    model = getattr(getattr(model, "generate", None), "__self__", model)
    if hasattr(model, "get_base_model"):
        # an adapter of PEFT
        model = model.get_base_model()
    # the method of the class, as hooks and users replace the object's
    names = inspect.signature(type(model).forward).parameters
    if "input_ids" not in names:
        return None
    return names


def source_positions(model: Any) -> int | None:
    """The number of tokens for which a model's encoder has positions; None if unlimited."""
    return _positions(model, "encoder")


def target_positions(model: Any) -> int | None:
    """The number of tokens for which a model's decoder has positions; None if unlimited."""
    return _positions(model, "decoder")


def _positions(model: Any, side: str) -> int | None:
    """The number of tokens for which the `encoder` or the `decoder` of a model has positions; None if unlimited."""
    # exported graphs record the numbers of their model
    recorded = getattr(model, "recorded_positions", None)
    if recorded is not None:
        return recorded[side]
    # an encoder and a decoder of other models have configurations of their own
    config = getattr(model.config, side, model.config)
    config = getattr(config, "text_config", config)
    number = getattr(config, f"max_{side}_position_embeddings", None)
    if number is None:
        number = getattr(config, "max_position_embeddings", None)
    if number is None or not hasattr(model, "named_modules"):
        return number
    padding = _padding_of_positions(model, side, number)
    if padding is None:
        return number
    # RoBERTa and ProphetNet count positions from the padding's id + 1
    number -= padding + 1
    if side == "decoder" and hasattr(config, "ngram"):
        # ProphetNet's decoder predicts one token further
        number -= 1
    return number


def _padding_of_positions(model: Any, side: str, number: int) -> int | None:
    """The `padding_idx` of a model's first table of `number` position embeddings on one side; None without either."""
    for name, module in model.named_modules():
        if side in name and "position" in name and getattr(module, "num_embeddings", 0) == number:
            return module.padding_idx
    return None


def global_attention_mask(source_ids: "torch.Tensor", given: "torch.Tensor | None" = None) -> "torch.Tensor":
    """The mask (B, S) of tokens to which all tokens attend.

    Args:
        source_ids: (B, S), the documents.
        given: (B or 1, any length), the mask of the first tokens. By default it is 1 for the first token alone (Beltagy
            et al. 2020, section 7). The other tokens get 0.
    """
    mask = source_ids.new_zeros(source_ids.shape)
    if given is None:
        given = mask.new_ones(1, 1)
    given = given.to(mask)
    width = min(mask.shape[1], given.shape[1])
    mask[:, :width] = given[:, :width]
    return mask


def task_parameters(config: "PreTrainedConfig") -> dict[str, Any]:
    """The summarization parameters in a config's `task_specific_params`, as in T5 and BART; empty without them."""
    tasks = getattr(config, "task_specific_params", None) or {}
    return tasks.get("summarization") or {}


def prefix_of(config: "PreTrainedConfig") -> str:
    """The prefix that a model's config puts before each document; empty without one."""
    parameters = task_parameters(config)
    if "prefix" in parameters:
        return parameters["prefix"] or ""
    return getattr(config, "prefix", None) or ""


def prefix_arguments(processor: Any, prefixes: Sequence[str]) -> dict[str, list[int]]:
    """The argument `prefix_lengths` of a processor's `source_features`.

    Args:
        processor: the processor of one of our architectures.
        prefixes: the prefix of each example.

    Returns:
        The number of characters of each prefix in the cleaned text, as the value of `prefix_lengths`. The dictionary is
        empty if all prefixes are, or if the processor has no such argument.
    """
    takes_lengths = "prefix_lengths" in inspect.signature(processor.source_features).parameters
    if not takes_lengths or not any(prefixes):
        return {}
    # cleaning keeps white space at the end of a prefix only before further text
    return {"prefix_lengths": [len(processor.clean_document(f"{prefix}a")) - 1 for prefix in prefixes]}


def with_prefix(example: str | list[str], prefix: str) -> str | list[str]:
    """Put a prefix before a text, or before the first document of an example of several documents."""
    # formatted, as `prefix + example` would HTML-escape the prefix if the example is a `markupsafe.Markup`
    if isinstance(example, str):
        return f"{prefix}{example}"
    if not example:
        return []
    return [f"{prefix}{example[0]}"] + list(example[1:])

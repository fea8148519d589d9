"""What differs between sequence-to-sequence models: names of inputs, positions, global attention, prefixes.

For a fast command line, this module imports neither torch nor transformers.
"""

import inspect
from collections.abc import Collection
from typing import Any

# input of LED
GLOBAL_MASK = "global_attention_mask"


def input_names(model: Any) -> Collection[str] | None:
    """The names of the inputs of a model's `forward`; None if it is in a wrapper that does not name them."""
    # the forward of a compiled model and of an adapter accepts anything, but the model's own may not; wrappers pass on
    # the model's `generate`
    model = getattr(getattr(model, "generate", None), "__self__", model)
    model = model.get_base_model() if hasattr(model, "get_base_model") else model
    # that of the class: hooks and users replace the object's
    names = inspect.signature(type(model).forward).parameters
    return names if "input_ids" in names else None


def source_positions(model: Any) -> int | None:
    """The number of tokens that the positions of a model's encoder suffice for; None if unlimited."""
    return _positions(model, "encoder")


def target_positions(model: Any) -> int | None:
    """The same for its decoder."""
    return _positions(model, "decoder")


def _positions(model: Any, side: str) -> int | None:
    recorded = getattr(model, "recorded_positions", None)
    if recorded is not None:
        return recorded[side]
    # an encoder and a decoder of other models have configurations of their own
    config = getattr(model.config, side, model.config)
    config = getattr(config, "text_config", config)
    names = (f"max_{side}_position_embeddings", "max_position_embeddings")
    number = next((number for name in names if (number := getattr(config, name, None)) is not None), None)
    if number is None or not hasattr(model, "named_modules"):
        return number
    tables = (module for name, module in model.named_modules() if side in name and "position" in name)
    padding = next((table.padding_idx for table in tables if getattr(table, "num_embeddings", 0) == number), None)
    # RoBERTa and ProphetNet count positions from the padding's id + 1, and the latter's decoder predicts one further
    further = side == "decoder" and hasattr(config, "ngram")
    return number if padding is None else number - padding - 1 - further


def global_attention_mask(source_ids, given=None):
    """The tokens to which all attend: the first one (Beltagy et al. 2020, section 7), or those given.

    Args:
        source_ids: (B, S), the shape of the result.
        given: (B or 1, any length), for the first tokens.
    """
    mask = source_ids.new_zeros(source_ids.shape)
    given = mask.new_ones(1, 1) if given is None else given.to(mask)
    width = min(mask.shape[1], given.shape[1])
    mask[:, :width] = given[:, :width]
    return mask


def task_parameters(config) -> dict:
    """The summarization parameters in a config's `task_specific_params`, as in T5 and BART."""
    return (getattr(config, "task_specific_params", None) or {}).get("summarization") or {}


def prefix_of(config) -> str:
    """The prefix of each document in a model's config."""
    return task_parameters(config).get("prefix", getattr(config, "prefix", None)) or ""


def with_prefix(example: str | list[str], prefix: str) -> str | list[str]:
    """Put a prefix before a text, or before the first document of an example."""
    # not `+`, in which a text of markupsafe would escape the prefix
    if isinstance(example, str):
        return f"{prefix}{example}"
    return [f"{prefix}{example[0]}", *example[1:]] if example else []

"""The processor of a model of ours: that of its folder, or one around a tokenizer that comes from elsewhere."""

import inspect
from contextlib import suppress
from typing import Any

from transformers import AutoProcessor
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.utils import logging

logger = logging.get_logger(__name__)


def load_processor(model: Any, tokenizer: Any) -> Any:
    """The processor in the model's folder or, beside weights alone, in that of the tokenizer.

    If neither has one, as where a trainer or MLflow has saved only a tokenizer, it is made around the tokenizer with
    default settings, of which a warning tells.

    Args:
        model: a loaded model of one of our architectures.
        tokenizer: the tokenizer that is given beside the model, which the processor then has; or None.

    Raises:
        ValueError: the model's folder has no processor, and no tokenizer is given.
    """
    name = model.name_or_path
    is_trusted = type(model).__module__.startswith("transformers_modules.")
    try:
        processor = AutoProcessor.from_pretrained(name, trust_remote_code=is_trusted, **model.hub_settings)
    except (OSError, ValueError) as error:
        processor_class = PROCESSOR_MAPPING.get(type(model.config), None)
        if tokenizer is None or processor_class is None:
            raise ValueError(f"{name} has no processor: give the model's own as `processor`") from error
        return _around(tokenizer, processor_class, model)
    processor.tokenizer = tokenizer or processor.tokenizer
    return processor


def _around(tokenizer: Any, processor_class: type, model: Any) -> Any:
    """The processor in the tokenizer's folder if it is of this class, otherwise one with default settings."""
    processor: Any = None
    with suppress(OSError, ValueError):
        processor = AutoProcessor.from_pretrained(tokenizer.name_or_path)
    # compared by name: the class may have been loaded from the folder's code
    if type(processor).__name__ == processor_class.__name__:
        processor.tokenizer = tokenizer
        return processor
    logger.warning(
        f"neither {model.name_or_path} nor the tokenizer's folder has a processor_config.json, so "
        f"{processor_class.__name__} has its default settings: give the model's own as `processor` if it was trained "
        "with others"
    )
    # such as the tags of GDLF, which the model's weights are for
    names = inspect.signature(processor_class).parameters
    settings = {name: getattr(model.config, name) for name in names if hasattr(model.config, name)}
    return processor_class(tokenizer, **settings)

"""Loads the processor of a model of one of our architectures, or makes one for a tokenizer."""

import inspect
from contextlib import suppress
from typing import Any

from transformers import AutoProcessor, PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.utils import logging

logger = logging.get_logger(__name__)


def load_processor(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None) -> ProcessorMixin:
    """Load the processor in the model's folder or, if that has none, in the tokenizer's folder.

    If neither has one, the processor is made of the tokenizer and default settings, with a warning. This happens where
    a trainer or MLflow has saved only a tokenizer, and for a model that was made in memory.

    Args:
        model: a model of one of our architectures.
        tokenizer: the tokenizer that the processor must have; by default the processor's own.

    Raises:
        ValueError: the model's folder has no processor, and no tokenizer is given.
    """
    name = model.name_or_path or "the model"
    is_trusted = type(model).__module__.startswith("transformers_modules.")
    try:
        processor = _processor_in(model.name_or_path, trust_remote_code=is_trusted, **model.hub_settings)
    except (OSError, ValueError) as error:
        processor_class = PROCESSOR_MAPPING.get(type(model.config), None)
        if tokenizer is None or processor_class is None:
            raise ValueError(f"{name} has no processor: give the model's own as `processor`") from error
        return _processor_of_tokenizer(tokenizer, processor_class, model)
    if tokenizer is not None:
        processor.tokenizer = tokenizer
    return processor


def _processor_in(folder: str, **settings: Any) -> ProcessorMixin:
    """The processor in a folder or repository; an OSError for what was made in memory, whose folder is empty.

    Args:
        folder: the folder or repository.
        settings: arguments of `AutoProcessor.from_pretrained`.
    """
    if not folder:
        # transformers would read the current folder
        raise FileNotFoundError("made in memory, without a folder")
    return AutoProcessor.from_pretrained(folder, **settings)


def _processor_of_tokenizer(
    tokenizer: PreTrainedTokenizerBase, processor_class: type, model: PreTrainedModel
) -> ProcessorMixin:
    """The processor in the tokenizer's folder if it is of this class, otherwise one with default settings."""
    with suppress(OSError, ValueError):
        processor = _processor_in(tokenizer.name_or_path)
        # compared by name, as the class may have been loaded from the folder's code
        if type(processor).__name__ == processor_class.__name__:
            processor.tokenizer = tokenizer
            return processor
    logger.warning(
        f"neither {model.name_or_path or 'the model'} nor the tokenizer's folder has a processor_config.json, so "
        f"{processor_class.__name__} has its default settings: give the model's own as `processor` if it was trained "
        "with others"
    )
    # the model's configuration has some settings too, such as the tags of GDLF
    settings = {}
    for name in inspect.signature(processor_class).parameters:
        if hasattr(model.config, name):
            settings[name] = getattr(model.config, name)
    return processor_class(tokenizer, **settings)

"""Registers the architectures with transformers' Auto classes and pipelines and with PEFT.

`import hf_summ` calls `register`, which imports neither the architectures nor these libraries. To register a class, it
must be imported, and torch with it. So a library is changed only after its import, and our classes are added to a
registry only when the registry is first read.
"""

from collections.abc import Callable, Iterator, MutableMapping
from functools import partial, wraps
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hf_summ.common.lazy import after_import

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, Trainer

    from hf_summ.runtimes.long_documents import Reading

# Model type -> the beginning of the names of its classes.
ARCHITECTURES = {
    "gdlf": "Gdlf",
    "copy_transformer": "CopyTransformer",
    "drgd": "Drgd",
    "highlight_transformer": "HighlightTransformer",
    "pointer_generator": "PointerGenerator",
    "sagcopy": "SagCopy",
}


def _public_names() -> dict[str, str]:
    """Public name of `hf_summ` -> the module that defines it, relative to `hf_summ`."""
    modules = {}
    for model_type, prefix in ARCHITECTURES.items():
        modules[f"{prefix}Config"] = f".models.configuration_{model_type}"
        modules[f"{prefix}Model"] = f".models.modeling_{model_type}"
        modules[f"{prefix}ForConditionalGeneration"] = f".models.modeling_{model_type}"
        modules[f"{prefix}Processor"] = f".models.processing_{model_type}"
    modules["Int8Config"] = ".models.quantization_int8"
    modules["SummarizationCollator"] = ".data.collator"
    modules["SummarizationPipeline"] = ".runtimes.pipeline"
    modules["bundled_model"] = ".pretrained"
    modules["summarizer"] = ".pretrained"
    return modules


PUBLIC_NAMES = _public_names()

# Architecture -> the modules that LoRA of PEFT adapts if its config names none. These are the projections of attention
# to queries and values, as for BART. The projection that predicts the kernels of a convolution corresponds to queries.
# The architectures with a token shift adapt its projection too.
LORA_TARGET_MODULES: dict[str, list[str]] = {
    "gdlf": ["q_proj", "v_proj", "kernel_projection"],
    "copy_transformer": ["q_proj", "v_proj", "token_shift.projection"],
    "drgd": ["key_projection", "projection"],
    "highlight_transformer": ["q_proj", "v_proj", "token_shift.projection"],
    "pointer_generator": ["query_projection", "key_projection"],
    "sagcopy": ["q_proj", "v_proj", "token_shift.projection"],
}

# Architecture -> the modules that IA3 of PEFT adapts if its config names none. It scales the keys and values of
# attention and the input of the second layer of a feed-forward network (Liu et al. 2022).
_IA3_TARGET_MODULES: dict[str, list[str]] = {
    "gdlf": ["k_proj", "v_proj", "feed_forward.outer"],
    "copy_transformer": ["k_proj", "v_proj", "feed_forward.outer"],
    "drgd": ["key_projection"],
    "highlight_transformer": ["k_proj", "v_proj", "feed_forward.outer"],
    "pointer_generator": ["key_projection"],
    "sagcopy": ["k_proj", "v_proj", "feed_forward.outer"],
}
# Architecture -> the modules among them of which the input is scaled, and not the output.
_IA3_FEEDFORWARD_MODULES: dict[str, list[str]] = {
    "gdlf": ["feed_forward.outer"],
    "copy_transformer": ["feed_forward.outer"],
    "drgd": [],
    "highlight_transformer": ["feed_forward.outer"],
    "pointer_generator": [],
    "sagcopy": ["feed_forward.outer"],
}


class _FilledWhenRead(MutableMapping):
    """A registry in the form of a dict, to which a function adds our entries when it is first read.

    Args:
        content: the dict of the registry.
        fill: adds our entries to the registry. After an error it is called again by the next access.
    """

    def __init__(self, content: dict, fill: Callable[[], object]):
        self._content = content
        self._fill = fill
        self._is_filled = False
        # `fill` itself accesses the registry, so its thread may take the lock again.
        self._lock = RLock()

    def _filled_content(self) -> dict:
        # While one thread fills the registry, others wait here until all entries are there.
        with self._lock:
            if not self._is_filled:
                # This is set before the call, because `fill` gets here as well.
                self._is_filled = True
                try:
                    self._fill()
                except BaseException:
                    self._is_filled = False
                    raise
        return self._content

    def __getitem__(self, key):
        return self._filled_content()[key]

    def __setitem__(self, key, value) -> None:
        self._filled_content()[key] = value

    def __delitem__(self, key) -> None:
        del self._filled_content()[key]

    def __iter__(self) -> Iterator:
        return iter(self._filled_content())

    def __len__(self) -> int:
        return len(self._filled_content())


def register() -> None:
    """Register the architectures with transformers and PEFT now, or after the import of their modules."""
    after_import(
        {
            "transformers.models.auto.configuration_auto": _register_configs,
            "transformers.models.auto.modeling_auto": _register_models,
            "transformers.models.auto.processing_auto": _register_processors,
            "transformers.pipelines": _register_pipeline,
            "transformers.trainer": _adapt_trainer,
            "peft.utils.constants": _register_adapted_modules,
            "hf_summ.models.modeling_base": _register_int8,
            "hf_summ.models.modeling_copying": _set_fused_loss,
            "hf_summ.runtimes.long_documents": _add_shorteners,
        }
    )


def _class(name: str) -> type:
    """Import one of our classes by its public name."""
    module = import_module(PUBLIC_NAMES[name], "hf_summ")
    return getattr(module, name)


def _register_configs(auto: ModuleType) -> None:
    _register_when_read(auto.CONFIG_MAPPING, auto.AutoConfig, "Config")


def _register_models(auto: ModuleType) -> None:
    _register_when_read(auto.MODEL_MAPPING, auto.AutoModel, "Model")
    seq2seq_mapping = auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    _register_when_read(seq2seq_mapping, auto.AutoModelForSeq2SeqLM, "ForConditionalGeneration")


def _register_processors(auto: ModuleType) -> None:
    _register_when_read(auto.PROCESSOR_MAPPING, auto.AutoProcessor, "Processor")


def _register_when_read(mapping: Any, auto_class: Any, suffix: str) -> None:
    """Register a class of each architecture with an Auto class when its mapping is first read.

    Args:
        mapping: the registry that the Auto class reads.
        auto_class: such as `AutoModel`.
        suffix: the end of the classes' names.
    """

    def fill() -> None:
        for model_type, prefix in ARCHITECTURES.items():
            # Configs are registered by their model type, and other classes by their config.
            key = model_type if suffix == "Config" else _class(f"{prefix}Config")
            auto_class.register(key, _class(f"{prefix}{suffix}"), exist_ok=True)

    # This is the dict to which `register` of an Auto class writes.
    mapping._extra_content = _FilledWhenRead(mapping._extra_content, fill)


def _register_pipeline(pipelines: ModuleType) -> None:
    """Register the task "summarization", which transformers 5 removed."""
    task: dict[str, object] = {}

    def fill() -> None:
        # A private registry makes the entry: the global one would warn that the task is already registered.
        registry = pipelines.PipelineRegistry({}, {})
        registry.register_pipeline(
            "summarization",
            pipeline_class=_class("SummarizationPipeline"),
            pt_model=import_module("hf_summ.checkpoints.adapters").AutoModelForSummarization,
            # This was the default model in transformers 4.
            default={"model": ("sshleifer/distilbart-cnn-12-6", "a4f8f3e")},
            type="text",
        )
        task.update(registry.supported_tasks["summarization"])

    pipelines.PIPELINE_REGISTRY.supported_tasks["summarization"] = _FilledWhenRead(task, fill)
    # transformers looks for removed tasks before it looks for registered ones.
    pipelines.REMOVED_TASKS.pop("summarization", None)


def _adapt_trainer(module: ModuleType) -> None:
    """Make `Trainer` adapt our models to its settings, when it gets a model and when it calls its `model_init`."""
    trainer_class = module.Trainer
    original_init = trainer_class.__init__
    original_call_model_init = trainer_class.call_model_init

    def adapt(trainer: "Trainer", model: "PreTrainedModel | None") -> None:
        config: Any = getattr(model, "config", None)
        if model is None or getattr(config, "model_type", None) not in ARCHITECTURES:
            return
        processor = getattr(trainer, "processing_class", None)
        if processor is not None:
            # A trainer calls `generate` without a tokenizer, which a new model does not have.
            model._own_tokenizer = getattr(processor, "tokenizer", processor)
        if getattr(model, "unknown_ids", 0) and getattr(trainer, "preprocess_logits_for_metrics", None) is None:
            trainer.preprocess_logits_for_metrics = partial(_scores_of_words, model)
        factor = trainer.args.label_smoothing_factor
        if not factor:
            return
        # transformers would compute the loss from the logits, without KL, guidance and the model's other losses.
        trainer.label_smoother = None
        if config.label_smoothing == 0:
            config.label_smoothing = factor
        elif config.label_smoothing != factor:
            module.logger.warning(
                f"`label_smoothing_factor` is {factor}, but the model's config.label_smoothing is "
                f"{config.label_smoothing}, which applies: set the latter"
            )

    @wraps(original_init)
    def adapting_init(self, *arguments, **settings) -> None:
        original_init(self, *arguments, **settings)
        adapt(self, self.model)

    @wraps(original_call_model_init)
    def adapting_call_model_init(self, *arguments, **settings) -> "PreTrainedModel":
        model = original_call_model_init(self, *arguments, **settings)
        adapt(self, model)
        return model

    trainer_class.__init__ = adapting_init
    trainer_class.call_model_init = adapting_call_model_init


def _scores_of_words(model: Any, predictions: Any, labels: "Tensor") -> Any:
    """The predictions with the scores (R, T, V) of words, without those (R, T, S) of pointers.

    S differs between batches, whose predictions a trainer joins.

    Args:
        model: the model that predicts.
        predictions: scores (R, T, V + S), or a tuple with these first, or generated ids (R, T).
        labels: (R, T); not used.
    """
    if isinstance(predictions, tuple):
        return (_scores_of_words(model, predictions[0], labels), *predictions[1:])
    if predictions.dim() == 2:
        return predictions
    return predictions[..., : model.config.vocab_size]


def _register_adapted_modules(constants: ModuleType) -> None:
    """Add the modules that adapters adapt by default to the tables of PEFT."""
    for name, table in vars(constants).items():
        # All tuners adapt the modules that LoRA adapts, except IA3 below and the one that tunes layer norms.
        if name.endswith("_TARGET_MODULES_MAPPING") and "LNTUNING" not in name:
            table.update(LORA_TARGET_MODULES)
    constants.TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING.update(_IA3_TARGET_MODULES)
    constants.TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING.update(_IA3_FEEDFORWARD_MODULES)


def _register_int8(modeling: ModuleType) -> None:
    # This module registers the quantization method that checkpoints in 8 bits name.
    import_module("hf_summ.models.quantization_int8")


def _set_fused_loss(modeling: ModuleType) -> None:
    """Let models that copy compute the loss of training without the logits, see `copy_cross_entropy`.

    The code of a checkpoint on the Hub lacks this function, and computes the loss from the logits.
    """

    def fused_loss(*arguments, **settings) -> "tuple[Tensor, Tensor]":
        # Only training needs this module.
        losses = import_module("hf_summ.training.losses")
        return losses.copy_cross_entropy(*arguments, **settings)

    modeling.CopyingForConditionalGeneration.fused_loss = staticmethod(fused_loss)


def _add_shorteners(long_documents: ModuleType) -> None:
    """Add the values of the pipeline's `long_documents` that need the splitting of sentences."""

    def extract(*arguments, **settings) -> "list[Reading]":
        return import_module("hf_summ.shortening").extract(*arguments, **settings)

    def windows(*arguments, **settings) -> "list[Reading]":
        return import_module("hf_summ.shortening").windows(*arguments, **settings)

    long_documents.SHORTENERS["extract"] = extract
    long_documents.SHORTENERS["windows"] = windows

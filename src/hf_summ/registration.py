"""Registers the architectures with transformers' Auto classes and pipelines and with PEFT, and imports none of them.

Registering a class takes its import, and that of torch. So each registry is filled when it is first read.
"""

from collections.abc import Callable, Iterator, MutableMapping
from functools import partial, wraps
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

from hf_summ.common.lazy import after_import

# model type -> what the names of its classes begin with
ARCHITECTURES = {
    "gdlf": "Gdlf",
    "copy_transformer": "CopyTransformer",
    "drgd": "Drgd",
    "highlight_transformer": "HighlightTransformer",
    "pointer_generator": "PointerGenerator",
    "sagcopy": "SagCopy",
}

# public name of `hf_summ` -> its module
PUBLIC_NAMES = {
    f"{prefix}{suffix}": f".models.{module}_{model_type}"
    for model_type, prefix in ARCHITECTURES.items()
    for suffix, module in (
        ("Config", "configuration"),
        ("Model", "modeling"),
        ("ForConditionalGeneration", "modeling"),
        ("Processor", "processing"),
    )
} | {
    "Int8Config": ".models.quantization_int8",
    "SummarizationCollator": ".data.collator",
    "SummarizationPipeline": ".runtimes.pipeline",
    "bundled_model": ".pretrained",
    "summarizer": ".pretrained",
}

# architecture -> modules that PEFT's LoRA adapts when its config names none: the queries and values of attention, as
# for BART, the projection that predicts a convolution's kernels, which corresponds to queries, and the token shift
LORA_TARGET_MODULES: dict[str, list[str]] = {
    "gdlf": ["q_proj", "v_proj", "kernel_projection"],
    "copy_transformer": ["q_proj", "v_proj", "token_shift.projection"],
    "drgd": ["key_projection", "projection"],
    "highlight_transformer": ["q_proj", "v_proj", "token_shift.projection"],
    "pointer_generator": ["query_projection", "key_projection"],
    "sagcopy": ["q_proj", "v_proj", "token_shift.projection"],
}

# what PEFT's IA3 scales: keys, values and the input of the second layer of feed-forward networks (Liu et al. 2022)
_RECURRENT = ("drgd", "pointer_generator")
_IA3_FEEDFORWARD_MODULES = {name: [] if name in _RECURRENT else ["feed_forward.outer"] for name in ARCHITECTURES}
_IA3_TARGET_MODULES = {
    name: [*(["key_projection"] if name in _RECURRENT else ["k_proj", "v_proj"]), *modules]
    for name, modules in _IA3_FEEDFORWARD_MODULES.items()
}


class _FilledWhenRead(MutableMapping):
    """A registry's dict, to which a function adds our entries when it is first read."""

    def __init__(self, content: dict, fill: Callable[[], Any]):
        self._content, self._fill, self._lock = content, fill, RLock()

    def _filled(self) -> dict:
        # other threads wait until all entries are there; the function itself comes here too
        with self._lock:
            fill, self._fill = self._fill, lambda: None
            try:
                fill()
            except BaseException:
                self._fill = fill
                raise
        return self._content

    def __getitem__(self, key):
        return self._filled()[key]

    def __setitem__(self, key, value) -> None:
        self._filled()[key] = value

    def __delitem__(self, key) -> None:
        del self._filled()[key]

    def __iter__(self) -> Iterator:
        return iter(self._filled())

    def __len__(self) -> int:
        return len(self._filled())


def register() -> None:
    """Register with transformers and PEFT, which need not be imported yet."""
    after_import(
        {
            "transformers.models.auto.configuration_auto": lambda auto: _register_when_read(
                auto.CONFIG_MAPPING, auto.AutoConfig, "Config"
            ),
            "transformers.models.auto.modeling_auto": _models,
            "transformers.models.auto.processing_auto": lambda auto: _register_when_read(
                auto.PROCESSOR_MAPPING, auto.AutoProcessor, "Processor"
            ),
            "transformers.pipelines": _pipeline,
            "transformers.trainer": _trainer,
            "peft.utils.constants": _adapters,
            "hf_summ.models.modeling_base": _int8,
            "hf_summ.models.modeling_copying": _fused_loss,
            "hf_summ.runtimes.long_documents": _shorteners,
        }
    )


def _class(name: str) -> Any:
    return getattr(import_module(PUBLIC_NAMES[name], "hf_summ"), name)


def _models(auto: ModuleType) -> None:
    _register_when_read(auto.MODEL_MAPPING, auto.AutoModel, "Model")
    seq2seq = auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
    _register_when_read(seq2seq, auto.AutoModelForSeq2SeqLM, "ForConditionalGeneration")


def _register_when_read(mapping: Any, auto_class: Any, suffix: str) -> None:
    def fill() -> None:
        for model_type, prefix in ARCHITECTURES.items():
            key = model_type if suffix == "Config" else _class(f"{prefix}Config")
            auto_class.register(key, _class(f"{prefix}{suffix}"), exist_ok=True)

    # what `register` of an Auto class writes to
    mapping._extra_content = _FilledWhenRead(mapping._extra_content, fill)


def _pipeline(pipelines: ModuleType) -> None:
    task: dict[str, Any] = {}

    def fill() -> None:
        # of its own: the other one would warn that the task is there already
        registry = pipelines.PipelineRegistry({}, {})
        registry.register_pipeline(
            "summarization",
            pipeline_class=_class("SummarizationPipeline"),
            pt_model=import_module("hf_summ.checkpoints.adapters").AutoModelForSummarization,
            # that of transformers 4
            default={"model": ("sshleifer/distilbart-cnn-12-6", "a4f8f3e")},
            type="text",
        )
        task.update(registry.supported_tasks["summarization"])

    pipelines.PIPELINE_REGISTRY.supported_tasks["summarization"] = _FilledWhenRead(task, fill)
    # transformers looks for removed tasks before it looks for registered ones
    pipelines.REMOVED_TASKS.pop("summarization", None)


def _trainer(trainer: ModuleType) -> None:
    init, call_model_init = trainer.Trainer.__init__, trainer.Trainer.call_model_init

    def adapt(self, model: Any) -> Any:
        config: Any = getattr(model, "config", None)
        if getattr(config, "model_type", None) not in ARCHITECTURES:
            return model
        if (processor := getattr(self, "processing_class", None)) is not None:
            # a trainer calls `generate` without a tokenizer, which a new model does not have
            model._own_tokenizer = getattr(processor, "tokenizer", processor)
        if factor := self.args.label_smoothing_factor:
            # transformers would compute the loss from the logits, without KL, guidance and the model's other losses
            self.label_smoother = None
            if config.label_smoothing not in (0, factor):
                trainer.logger.warning(
                    f"`label_smoothing_factor` is {factor}, but the model's config.label_smoothing is "
                    f"{config.label_smoothing}, which applies: set the latter"
                )
            config.label_smoothing = config.label_smoothing or factor
        return model

    @wraps(init)
    def adapting_init(self, *arguments, **settings) -> None:
        init(self, *arguments, **settings)
        adapt(self, self.model)

    @wraps(call_model_init)
    def adapting_model_init(self, *arguments, **settings) -> Any:
        return adapt(self, call_model_init(self, *arguments, **settings))

    trainer.Trainer.__init__ = adapting_init
    trainer.Trainer.call_model_init = adapting_model_init


def _adapters(constants: ModuleType) -> None:
    for name, table in vars(constants).items():
        # all other tuners adapt what LoRA adapts
        if name.endswith("_TARGET_MODULES_MAPPING") and "LNTUNING" not in name:
            table.update(LORA_TARGET_MODULES)
    constants.TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING.update(_IA3_TARGET_MODULES)
    constants.TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING.update(_IA3_FEEDFORWARD_MODULES)


def _int8(modeling: ModuleType) -> None:
    # registers the method that checkpoints in 8 bits name
    import_module("hf_summ.models.quantization_int8")


def _fused_loss(modeling: ModuleType) -> None:
    def fused_loss(*arguments, **settings) -> Any:
        # only training needs it
        return import_module("hf_summ.training.losses").copy_cross_entropy(*arguments, **settings)

    modeling.CopyingForConditionalGeneration.fused_loss = staticmethod(fused_loss)


def _shorteners(pipeline: ModuleType) -> None:
    def shorten(method: str, *arguments, **settings) -> Any:
        return getattr(import_module("hf_summ.shortening"), method)(*arguments, **settings)

    pipeline.SHORTENERS.update({method: partial(shorten, method) for method in ("extract", "windows")})

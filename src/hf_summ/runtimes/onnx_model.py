"""Our models in ONNX Runtime, with the `generate()` of their architecture."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, AutoConfig, GenerationConfig, PreTrainedModel
from transformers.utils import ModelOutput

from hf_summ.models.generation_mixin import SummarizationGenerationMixin, output_of, rule_of, start_of
from hf_summ.models.layers_transformer import cache_argument
from hf_summ.models.modeling_copying import CopySummarizationOutput
from hf_summ.runtimes.folders import recorded_positions
from hf_summ.runtimes.onnx_search import (
    BEST_TOKENS,
    BEST_TOTALS,
    LAST,
    NEXT,
    NO_CANDIDATES,
    POSITIONS,
    READ,
    RECURRENT,
    STATE,
    WRITE,
    Graph,
    encode,
    joined,
    search,
)

_INPUTS = ("attention_mask", "decoder_input_ids", "encoder_outputs", "cache")
# inputs that the graphs do not support
_NOT_READ = (
    *("inputs_embeds", "decoder_inputs_embeds", "decoder_attention_mask", "labels"),
    *("latent_seed", "zero_latent", "output_attentions", "output_hidden_states"),
)


@dataclass
class OnnxSource(ModelOutput):
    """The encoded documents.

    Attributes:
        last_hidden_state: the encoder's output, (B, S, C).
        tensors: name -> source tensors of the steps, and initial states, with one row per document.
    """

    last_hidden_state: torch.Tensor | None = None
    tensors: dict[str, Any] | None = None


@dataclass
class OnnxOutput(CopySummarizationOutput):
    """`CopySummarizationOutput` with the source's subwords.

    Attributes:
        source_ids: (B, S).
    """

    source_ids: torch.Tensor | None = None


class OnnxCache:
    """The states after the last token of each row.

    Args:
        states: name -> states; the next step reads the rows in `rows`.
        rows: (R).
    """

    def __init__(self, states: dict[str, Any], rows: torch.Tensor):
        self.states, self.rows, self.written = states, rows, 0

    def get_seq_length(self) -> int:
        """The number of tokens of a row."""
        return self.written

    def reorder_cache(self, rows: torch.Tensor) -> None:
        """Select the rows to continue."""
        self.rows = self.rows[rows]

    def select_documents(self, documents: torch.Tensor) -> None:
        """Do nothing: this cache does not contain the documents' tensors."""


class _Reader(nn.Module):
    """Encodes documents.

    Args:
        positions: maximum number of positions that are encoded at once, over several documents.
    """

    def __init__(self, file: Path, positions: int):
        super().__init__()
        self.graph, self._positions = Graph(file, torch.get_num_threads()), positions

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **kwargs: Any) -> OnnxSource:
        """The inputs of the architecture's encoder -> the encoded documents.

        Raises:
            ValueError: an input is missing.
        """
        if attention_mask is None and input_ids is not None:
            attention_mask = torch.ones_like(input_ids)
        tensors = {"input_ids": input_ids, "attention_mask": attention_mask, **kwargs}
        inputs: dict[str, Any] = {name: tensors.get(name) for name in self.graph.inputs}
        for name, value in inputs.items():
            if value is None:
                raise ValueError(f"the model needs `{name}`: use its processor (`AutoProcessor`)")
        arrays = encode(self.graph, inputs, self._positions)
        read = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return OnnxSource(read[LAST], {"input_ids": input_ids, **read})


class OnnxGeneration(PreTrainedModel):
    """Mixin of ONNX models, listed before the architecture's class."""

    # graphs do not contain language models
    masked_lm = None
    compiles_steps = False
    # assisted decoding would have to roll back the states
    _is_stateful = True
    hub_settings: Mapping[str, Any] = {}

    def __init__(self, config, folder: Path):
        # skip the architecture's constructor, which creates weights
        PreTrainedModel.__init__(self, config)
        self._folder = folder
        self.recorded_positions = recorded_positions(folder)
        # activations of few positions fit in a processor's cache
        positions = sys.maxsize if config.model_type in RECURRENT else POSITIONS
        self._reader = _Reader(folder / READ, positions)
        self._step = Graph(folder / WRITE, torch.get_num_threads())
        self._outputs = [name for name in self._step.outputs if name not in (BEST_TOTALS, BEST_TOKENS)]

    def __reduce__(self):
        # sessions cannot be copied: the copy reads the graphs again
        return load_graphs, (self._folder,), {name: vars(self)[name] for name in ("config", "generation_config")}

    @property
    def model(self) -> "OnnxGeneration":
        """This model, as the graphs compute hidden states and scores together."""
        return self

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        """float32, the dtype of the scores."""
        return torch.float32

    def get_encoder(self, modality=None) -> nn.Module:
        return self._reader

    def get_input_embeddings(self) -> nn.Module:
        # only the number of embeddings is valid
        return nn.Embedding(self.config.vocab_size, 0, device="meta")

    def save_pretrained(self, *args, **kwargs):
        """Raise a ValueError: there are no weights."""
        raise ValueError("a model of ONNX graphs has no weights to save: copy its folder")

    def _apply(self, fn, recurse=True):
        if (device := fn(torch.empty(0)).device).type != "cpu":
            raise ValueError(f"ONNX graphs are for CPUs, but the model's device is {device}: load it on the CPU")
        return super()._apply(fn, recurse)

    def _search_by_rules(self, input_ids, logits_processor, generation_config, model_kwargs):
        """Search with the candidates of the graph if all processors only forbid tokens, otherwise with its scores."""
        rules = [rule for rule in map(rule_of, logits_processor) if rule is not None]
        replaces_unknown = getattr(generation_config, "replace_unk", None)
        if len(rules) < len(logits_processor) or input_ids.shape[1] > 1 or replaces_unknown:
            return super()._search_by_rules(input_ids, logits_processor, generation_config, model_kwargs)
        tensors = {**model_kwargs["encoder_outputs"].tensors, "attention_mask": model_kwargs["attention_mask"]}
        arrays = {name: value.numpy() for name, value in tensors.items()}
        best = search(self._step, arrays, start_of(input_ids, generation_config), rules)
        return output_of(best, generation_config, None, input_ids.device)

    def _forward(self, **inputs) -> OnnxOutput:
        """The scores of the next subword after each one of `decoder_input_ids`, step by step."""
        for name in _NOT_READ:
            if (value := inputs.get(name)) is not None and value is not False:
                raise ValueError(f"ONNX graphs do not support `{name}`: omit it, or load the checkpoint itself")
        mask, tokens, source, cache = (inputs[name] for name in _INPUTS)
        # the name before transformers 5.24
        cache = inputs.get("past_key_values", cache)
        if source is None:
            source = self._reader(**{name: inputs[name] for name in self._reader.graph.inputs})
        ids = source.tensors["input_ids"]
        tensors = {**source.tensors, "attention_mask": torch.ones_like(ids) if mask is None else mask}
        if cache is None:
            rows = torch.arange(len(ids)).repeat_interleave(len(tokens) // len(ids))
            cache = OnnxCache({name: value for name, value in tensors.items() if name.startswith(STATE)}, rows)
        steps = [self._write(column, tensors, cache) for column in tokens.unbind(1)]
        logits, copied = (
            torch.from_numpy(joined([step[name] for step in steps], 1)) if name in steps[0] else None
            for name in ("logits", "copy_attentions")
        )
        coverage = next((torch.from_numpy(cache.states[name]) for name in cache.states if ".coverage." in name), None)
        return OnnxOutput(
            logits=logits,
            copy_attentions=copied,
            coverage=coverage,
            **cache_argument(None if inputs["use_cache"] is False else cache),
            source_ids=ids,
        )

    def _write(self, tokens: torch.Tensor, tensors: Mapping[str, Any], cache: OnnxCache) -> dict[str, np.ndarray]:
        """The outputs of a step without its states, which go to the cache."""
        written = np.empty(cache.written, np.float32)
        inputs = {**tensors, **cache.states, "tokens": tokens, "rows": cache.rows, "written": written, **NO_CANDIDATES}
        outputs = self._step(inputs, self._outputs)
        cache.states = {name.removeprefix(NEXT): outputs.pop(name) for name in list(outputs) if name.startswith(NEXT)}
        cache.rows = torch.arange(len(tokens))
        cache.written += 1
        return outputs


class OnnxTransformersGeneration(OnnxGeneration, SummarizationGenerationMixin):
    """`OnnxGeneration` for architectures of transformers, with the settings and the search of ours."""

    has_coverage = False

    def forward(
        self,
        input_ids=None,
        attention_mask=None,
        decoder_input_ids=None,
        encoder_outputs=None,
        cache=None,
        use_cache=None,
        **kwargs,
    ) -> OnnxOutput:
        """As the architectures' `forward`."""
        return self._forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            encoder_outputs=encoder_outputs,
            cache=cache,
            use_cache=use_cache,
            **kwargs,
        )


def load_graphs(folder: Path) -> PreTrainedModel:
    """Load the model from a folder of graphs, or of graphs alone in that of their checkpoint."""
    settings_folder = folder if (folder / "config.json").is_file() else folder.parent
    config = AutoConfig.from_pretrained(settings_folder)
    architecture = MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING[type(config)]
    is_ours = issubclass(architecture, SummarizationGenerationMixin)
    runtime = OnnxGeneration if is_ours else OnnxTransformersGeneration
    model = type(f"Onnx{architecture.__name__}", (runtime, architecture), {})(config, folder)
    model.generation_config = GenerationConfig.from_pretrained(settings_folder)
    return model.eval()

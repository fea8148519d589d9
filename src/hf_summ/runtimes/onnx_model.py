"""Models of exported ONNX graphs, with the `generate()` of their architecture."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from transformers import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, AutoConfig, GenerationConfig, PreTrainedModel
from transformers.utils import ModelOutput

from hf_summ.models.generation_mixin import SummarizationGenerationMixin, output_of, rule_of, start_of
from hf_summ.models.modeling_copying import CopySummarizationOutput
from hf_summ.runtimes.folders import recorded_positions, weights_file
from hf_summ.runtimes.onnx_search import (
    BEST_TOKENS,
    BEST_TOTALS,
    COPIED,
    ENCODER_BATCH_TOKENS,
    LAST,
    LOGITS,
    NEXT,
    NO_CANDIDATES,
    READ,
    RECURRENT,
    STATE,
    WRITE,
    Graph,
    coverage_state,
    encode,
    joined,
    search,
)

# arguments of `forward` that the graphs do not support
_UNSUPPORTED = (
    "inputs_embeds",
    "decoder_inputs_embeds",
    "decoder_attention_mask",
    "labels",
    "latent_seed",
    "zero_latent",
    "output_attentions",
    "output_hidden_states",
)
# name -> a tensor, or an array of NumPy, to which ONNX Runtime converts tensors without a copy
Tensors = Mapping[str, torch.Tensor | np.ndarray]


@dataclass
class OnnxSource(ModelOutput):
    """The encoded documents.

    Attributes:
        last_hidden_state: the encoder's output, (B, S, C).
        tensors: the tensors of the source that all steps read, the ids, and the initial states, by name, with one row
            per document.
    """

    last_hidden_state: torch.Tensor | None = None
    tensors: dict[str, torch.Tensor] | None = None


@dataclass
class OnnxOutput(CopySummarizationOutput):
    """`CopySummarizationOutput` with the ids of the documents.

    Attributes:
        source_ids: (B, S).
    """

    source_ids: torch.Tensor | None = None


class OnnxCache:
    """The states after the last token of each row.

    Args:
        states: the states by name, with one row per document at first, then with one row per row of the last step.
        rows: (R,), the rows of the states from which the next step continues.

    Attributes:
        written: the number of tokens that have been written in each row.
    """

    def __init__(self, states: Tensors, rows: torch.Tensor):
        self.states = states
        self.rows = rows
        self.written = 0

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
        file: the graph of the encoder.
        weights: the file of weights that the graph reads, or None.
        batch_tokens: as for `encode`.
    """

    def __init__(self, file: Path, weights: Path | None, batch_tokens: int):
        super().__init__()
        self.graph = Graph(file, torch.get_num_threads(), weights)
        self._batch_tokens = batch_tokens

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        **kwargs: torch.Tensor | None,
    ) -> OnnxSource:
        """Encode a batch of documents.

        Args:
            input_ids: (B, S).
            attention_mask: (B, S), by default 1 everywhere.
            kwargs: the other inputs of the architecture's encoder, such as `tag_ids`. `generate()` passes them only to
                an argument of this name.

        Raises:
            ValueError: an input is missing.
        """
        if attention_mask is None and input_ids is not None:
            attention_mask = torch.ones_like(input_ids)
        given = {"input_ids": input_ids, "attention_mask": attention_mask, **kwargs}
        inputs = {}
        for name in self.graph.inputs:
            value = given.get(name)
            if value is None:
                raise ValueError(f"the model needs `{name}`: use its processor (`AutoProcessor`)")
            inputs[name] = value
        tensors = {"input_ids": inputs["input_ids"]}
        for name, array in encode(self.graph, inputs, self._batch_tokens).items():
            tensors[name] = torch.from_numpy(array)
        return OnnxSource(tensors[LAST], tensors)


class OnnxGeneration(PreTrainedModel):
    """Mixin of ONNX models, listed before the architecture's class."""

    # graphs do not contain language models
    masked_lm = None
    compiles_steps = False
    # assisted decoding would have to roll back the states
    _is_stateful = True
    hub_settings: Mapping[str, object] = {}

    def __init__(self, config, folder: Path):
        # skip the architecture's constructor, which creates weights
        PreTrainedModel.__init__(self, config)
        self._folder = folder
        self.recorded_positions = recorded_positions(folder)
        # recurrent encoders read all documents of a batch at once
        batch_tokens = sys.maxsize if config.model_type in RECURRENT else ENCODER_BATCH_TOKENS
        weights = weights_file(folder)
        self._reader = _Reader(folder / READ, weights, batch_tokens)
        self._step = Graph(folder / WRITE, torch.get_num_threads(), weights)
        # `generate()` of PyTorch chooses among the scores itself
        self._outputs = [name for name in self._step.outputs if name not in (BEST_TOTALS, BEST_TOKENS)]

    def __reduce__(self):
        # sessions cannot be copied: the copy reads the graphs again
        attributes = {"config": self.config, "generation_config": self.generation_config}
        return load_graphs, (self._folder,), attributes

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
        device = fn(torch.empty(0)).device
        if device.type != "cpu":
            raise ValueError(f"ONNX graphs are for CPUs, but the model's device is {device}: load it on the CPU")
        return super()._apply(fn, recurse)

    def _search_by_rules(self, input_ids, processors, config, model_kwargs):
        """Search with the candidates of the graph if all processors only forbid tokens, otherwise with its scores."""
        rules = []
        for processor in processors:
            rule = rule_of(processor)
            if rule is not None:
                rules.append(rule)
        has_other_processors = len(rules) < len(processors)
        continues_prompts = input_ids.shape[1] > 1
        replaces_unknown = getattr(config, "replace_unk", None)
        if has_other_processors or continues_prompts or replaces_unknown:
            return super()._search_by_rules(input_ids, processors, config, model_kwargs)
        tensors = {**model_kwargs["encoder_outputs"].tensors, "attention_mask": model_kwargs["attention_mask"]}
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        best = search(self._step, arrays, start_of(input_ids, config), rules)
        return output_of(best, config, None, input_ids.device)

    def _forward(self, **inputs) -> OnnxOutput:
        """The scores of the next token after each token of `decoder_input_ids` (R, T), step by step.

        Args:
            inputs: the arguments of the architecture's `forward`.

        Raises:
            ValueError: an argument is not supported.
        """
        for name in _UNSUPPORTED:
            value = inputs.get(name)
            if value is not None and value is not False:
                raise ValueError(f"ONNX graphs do not support `{name}`: omit it, or load the checkpoint itself")
        source = inputs["encoder_outputs"]
        if source is None:
            source = self._reader(**{name: inputs[name] for name in self._reader.graph.inputs})
        source_ids = source.tensors["input_ids"]
        mask = inputs["attention_mask"]
        if mask is None:
            mask = torch.ones_like(source_ids)
        tensors = {**source.tensors, "attention_mask": mask}
        decoder_ids = inputs["decoder_input_ids"]
        cache = inputs["cache"]
        if cache is None:
            documents = len(source_ids)
            states = {name: tensor for name, tensor in tensors.items() if name.startswith(STATE)}
            cache = OnnxCache(states, torch.arange(documents).repeat_interleave(len(decoder_ids) // documents))
        steps = [self._write(tokens, tensors, cache) for tokens in decoder_ids.unbind(1)]
        coverage = None
        coverage_name = coverage_state(cache.states)
        if coverage_name is not None:
            coverage = torch.as_tensor(cache.states[coverage_name])
        returned_cache = None if inputs["use_cache"] is False else cache
        return OnnxOutput(
            logits=_joined_steps(steps, LOGITS),
            copy_attentions=_joined_steps(steps, COPIED),
            coverage=coverage,
            cache=returned_cache,
            source_ids=source_ids,
        )

    def _write(self, tokens: torch.Tensor, tensors: Tensors, cache: OnnxCache) -> dict[str, np.ndarray]:
        """The outputs of a step without its states, which go to the cache.

        Args:
            tokens: (R,), the last token of each row.
            tensors: the tensors of the source by name, with a row for each document.
            cache: the states before the step, changed in place.
        """
        inputs = {
            **tensors,
            **cache.states,
            "tokens": tokens,
            "rows": cache.rows,
            # only the length is read
            "written": np.empty(cache.written, np.float32),
            **NO_CANDIDATES,
        }
        outputs = {}
        states = {}
        for name, array in self._step(inputs, self._outputs).items():
            if name.startswith(NEXT):
                states[name.removeprefix(NEXT)] = array
            else:
                outputs[name] = array
        cache.states = states
        cache.rows = torch.arange(len(tokens))
        cache.written += 1
        return outputs


def _joined_steps(steps: Sequence[Mapping[str, np.ndarray]], name: str) -> torch.Tensor | None:
    """An output of several steps as one tensor (R, T, ...); None if steps have no such output."""
    if name not in steps[0]:
        return None
    return torch.from_numpy(joined([step[name] for step in steps], 1))


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
    """Load the model of a folder of graphs, whose configuration is there or in the folder above, a checkpoint's."""
    settings_folder = folder if (folder / "config.json").is_file() else folder.parent
    config = AutoConfig.from_pretrained(settings_folder)
    architecture = MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING[type(config)]
    is_ours = issubclass(architecture, SummarizationGenerationMixin)
    runtime = OnnxGeneration if is_ours else OnnxTransformersGeneration
    model_class = type(f"Onnx{architecture.__name__}", (runtime, architecture), {})
    model = model_class(config, folder)
    model.generation_config = GenerationConfig.from_pretrained(settings_folder)
    return model.eval()

"""Copying: attention to the source, the mixture of copying and generation, the loss, and a penalty on repetition.

The copy distribution of a step of the decoder is its attention to the positions of the source. The gate is the
probability of copying a word instead of generating one from the vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid, pad
from transformers import LogitsProcessor
from transformers.cache_utils import EncoderDecoderCache

from .checks import IGNORED_LABEL
from .generation_rules import coverage_growth
from .layers_transformer import is_symbolic, needs_plain_operations, product_of_rows
from .text_documents import FIRST_POINTER

# the log-probability of a pointer as a generated word. A pointer is only copied, so the number is low, but it is finite
NEVER = -80.0
# with a number of states in this range, a CPU multiplies a wide matrix up to twice as fast if states are columns rather
# than rows
_FEW_STATES = range(2, 9)


def has_plain_output(layer: nn.Module) -> bool:
    """Whether the output of a layer follows from its weight and bias as in `nn.Linear`, so that it need not be called.

    An adapter adds to the result. FSDP2 derives another class, which gathers the weight in a call. torchao replaces the
    weight. accelerate and DeepSpeed load the weight by hooks or by another `forward`.
    """
    if type(layer) is not nn.Linear or type(layer.weight) is not nn.Parameter:
        return False
    if "forward" in vars(layer):
        return False
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return not any(hooks)


def hooked_arguments(model: nn.Module) -> set[str]:
    """The arguments that hooks add to calls of a model's modules, such as `adapter_names` of PEFT."""
    names: set[str] = set()
    for module in model.modules():
        for hook in module._forward_pre_hooks.values():
            names.update(getattr(hook, "keywords", ()))
    return names


def project_to_words(layer: nn.Linear, hidden_states: torch.Tensor) -> torch.Tensor:
    """Apply the output layer of V words: hidden states (R, T, C) -> scores (R, T, V).

    For few states on a CPU, as in a step of decoding, this is faster than the layer. A library may have replaced the
    layer by another module, which is called.
    """
    states = hidden_states.flatten(0, 1)
    adapter = getattr(layer, "token_adapter", layer)
    if hasattr(adapter, "trainable_tokens_delta") and adapter.base_layer.bias is not None:
        # PEFT leaves out the bias, unless the tokens are merged or disabled: then zeros become the bias
        missing_bias = adapter.base_layer.bias - layer(torch.zeros_like(hidden_states[:, :1]))
        return layer(hidden_states) + missing_bias
    # a compiled graph must work for any number of rows
    needs_layer = torch.is_grad_enabled() or torch.compiler.is_compiling() or len(states) not in _FEW_STATES
    if needs_layer or not has_plain_output(layer):
        return layer(hidden_states)
    if layer.weight.device.type != "cpu" or states.dtype != torch.float32:
        return layer(hidden_states)
    if layer.bias is None:
        scores = layer.weight @ states.T
    else:
        scores = torch.addmm(layer.bias[:, None], layer.weight, states.T)
    return scores.T.contiguous().unflatten(0, hidden_states.shape[:2])


def copy_log_probs(
    logits: torch.Tensor,
    gate_logits: torch.Tensor,
    copy_attention: torch.Tensor,
    source_ids: torch.Tensor,
    unknown_ids: int = 0,
) -> torch.Tensor:
    """log p(w), with p(w) = (1 - c) softmax(logits)_w + c Σ_{i: x_i = w} a_i, c = σ(gate) (Aksenov 2020, equation 4.3).

    The smallest normal number is the floor of the probability of copying: finite logits yield finite log-probabilities
    and gradients, even with a saturated gate.

    Args:
        logits: (R, T, V), of generation; R is a multiple of B, and a document's beams are consecutive rows.
        gate_logits: (R, T), of copying.
        copy_attention: (R, T, S), each row a distribution over the source, zero at padding.
        source_ids: (B, S), below V + unknown_ids.
        unknown_ids: number of ids from V on, of words that the vocabulary lacks.

    Returns:
        (R, T, V), float64 if the logits are, otherwise float32. With unknown ids, (R, T, V + S): the last S scores
        belong to pointers, which are only copied; see `source_columns`.
    """
    rows, length, vocab_size = logits.shape
    dtype = torch.promote_types(logits.dtype, torch.float32)
    gate_logits = gate_logits.to(dtype)[..., None]
    log_probs = logits.log_softmax(-1, dtype=dtype)
    if unknown_ids:
        log_probs = pad(log_probs, (0, source_ids.shape[1]), value=NEVER)
    log_gate_closed = logsigmoid(-gate_logits)
    # generate() runs without gradients, and is faster if it works in place
    if torch.is_grad_enabled():
        log_probs = log_probs + log_gate_closed
    else:
        log_probs.add_(log_gate_closed)

    columns, first = source_columns(source_ids, vocab_size, unknown_ids)
    is_first = first == torch.arange(first.shape[1], device=first.device)
    columns = _expand_to_rows(columns, rows, length)
    first = _expand_to_rows(first, rows, length)
    is_first = _expand_to_rows(is_first, rows, length)
    generated = log_probs.gather(-1, columns)
    copied = log_copy_probs(gate_logits, _widened(copy_attention, dtype), first)
    # what copying adds to a word's log-probability, once for each different word of the source
    gains = torch.logaddexp(generated, copied) - generated
    gains = gains.masked_fill(~is_first, 0.0)
    if torch.is_grad_enabled():
        return log_probs.scatter_add(-1, columns, gains)
    return log_probs.scatter_add_(-1, columns, gains)


def _expand_to_rows(values: torch.Tensor, rows: int, length: int) -> torch.Tensor:
    """Repeat each document's values (B, S) for its beams and their positions without copying -> (R, T, S)."""
    beams = rows // values.shape[0]
    expanded = values[:, None, None].expand(-1, beams, length, -1)
    return expanded.reshape(rows, length, -1)


def source_columns(
    source_ids: torch.Tensor, vocab_size: int, unknown_ids: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """The column of each source word's score, and the position of its first occurrence: (B, S) -> (B, S), (B, S).

    The columns of the scores are the V words of the vocabulary, and behind them one pointer for each of the S source
    positions. A word that the vocabulary lacks has the column of the pointer to its first occurrence.
    """
    first = first_positions(source_ids, vocab_size + unknown_ids)
    if not unknown_ids:
        return source_ids, first
    columns = torch.where(source_ids < vocab_size, source_ids, vocab_size + first)
    return columns, first


def with_pointers(words: torch.Tensor, ids: torch.Tensor, source_ids: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """The columns (R, T) of the scores of ids (R, T): pointers for unknown words of the source, and words otherwise.

    Args:
        words: (R, T), the ids with the id of unknown words in place of those from `vocab_size` on.
        ids: (R, T); `FIRST_POINTER` + i is the pointer to position i.
        source_ids: (B, S), R a multiple of B.
        vocab_size: V, the column of the pointer to the first position.
    """
    beams = ids.shape[0] // source_ids.shape[0]
    source_ids = source_ids.repeat_interleave(beams, 0)
    is_unknown = ids >= vocab_size
    # (R, T, S), at source positions with the same unknown word
    is_same = (ids[:, :, None] == source_ids[:, None]) & is_unknown[..., None]
    is_pointer = ids >= FIRST_POINTER
    first_same = is_same.to(torch.uint8).argmax(-1)
    positions = torch.where(is_pointer, ids - FIRST_POINTER, first_same)
    return torch.where(is_pointer | is_same.any(-1), vocab_size + positions, words)


def transition_scores(
    columns: torch.Tensor,
    scores: Sequence[torch.Tensor],
    beam_indices: torch.Tensor | None = None,
    normalize_logits: bool = False,
) -> torch.Tensor:
    """The score of each generated token (R, T), as `compute_transition_scores` of transformers; zero behind an end.

    Args:
        columns: (R, L), the columns of the tokens. The last T belong to steps of the search, others to a prompt.
        scores: the scores (rows of the search, columns) of each step.
        beam_indices: (R, at least T), the row of the search that a token continued, negative behind an end; by default
            that of the same text.
        normalize_logits: whether to normalize the scores of a step to log-probabilities.
    """
    if beam_indices is None:
        beam_indices = torch.arange(len(columns), device=columns.device)[:, None].expand(-1, len(scores))
    is_generated = beam_indices >= 0
    steps = int(is_generated.sum(-1).max())
    columns = columns[:, columns.shape[1] - steps :]
    transitions = []
    for step in range(steps):
        step_scores = scores[step].log_softmax(-1) if normalize_logits else scores[step]
        transitions.append(step_scores[beam_indices[:, step], columns[:, step]])
    return torch.stack(transitions, 1).masked_fill(~is_generated[:, :steps], 0.0)


def check_labels(labels: torch.Tensor, vocab_size: int, unknown_ids: int) -> None:
    """Raise a ValueError for a label that is neither a word nor a pointer, before an embedding looks it up.

    Labels on an accelerator are not checked.
    """
    # on an accelerator this check would synchronize at every step, and the device asserts the range anyway
    if labels.device.type != "cpu" or is_symbolic(labels):
        return
    is_negative = (labels < 0) & (labels != IGNORED_LABEL)
    is_outside = is_negative | (labels >= vocab_size + unknown_ids)
    if unknown_ids:
        is_outside &= labels < FIRST_POINTER
    outside = labels[is_outside]
    if outside.numel():
        raise ValueError(f"label {outside[0]} is outside the vocabulary of {vocab_size}: use the model's own processor")


def first_positions(source_ids: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """The position of each source token's first occurrence in its document, (B, S) -> (B, S)."""
    positions = torch.arange(source_ids.shape[1], device=source_ids.device).expand_as(source_ids)
    # a table over the vocabulary avoids comparing all pairs of positions, which is quadratic in the length
    first = source_ids.new_empty(source_ids.shape[0], vocab_size)
    first.scatter_reduce_(1, source_ids, positions, "amin", include_self=False)
    return first.gather(1, source_ids)


def log_copy_probs(gate_logits: torch.Tensor, copy_attention: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """The log-probability of copying each source token: log c Σ_{j: x_j = x_i} a_j at its first position i.

    At later positions of the same token the sum is replaced by the smallest normal number.

    Args:
        gate_logits: (..., 1), the logits of c.
        copy_attention: (..., S), the distribution a.
        first: (..., S), from `first_positions`.

    Returns:
        (..., S).
    """
    totals = torch.zeros_like(copy_attention).scatter_add_(-1, first, copy_attention)
    # unlike clamping, adding preserves the gradient
    floor = torch.finfo(totals.dtype).tiny
    return logsigmoid(gate_logits) + (totals + floor).log()


def summed_coverage(
    copy_attentions: torch.Tensor, attention_mask: torch.Tensor | None, cache: EncoderDecoderCache | None
) -> torch.Tensor:
    """Sum the copy distributions (R, T, S) over all steps so far that are not padding -> (R, S).

    Args:
        attention_mask: (R, at least T), 1 at tokens; the last T columns belong to the T steps.
        cache: the last layer of the decoder's cache holds the sum over earlier steps, and gets the new sum.
    """
    copied = copy_attentions.detach()
    # half precision is too coarse for a sum over many steps
    copied = copied.to(torch.promote_types(copied.dtype, torch.float32))
    if attention_mask is not None:
        steps = copied.shape[1]
        copied = copied * attention_mask[:, -steps:, None]
    coverage = copied.sum(1)
    if cache is not None:
        coverage = cache.self_attention_cache.layers[-1].accumulate("coverage", coverage)
    return coverage


def _widened(copy_attention: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The attention in a wider dtype, whose gradient is clamped to the range of the attention's own precision.

    The gradient of an attention of zero is up to 1 / tiny, as `log_copy_probs` adds `tiny`, the smallest normal number.
    In half precision, this gradient would be infinite. The softmax of the attention would then multiply it by zero in
    its backward pass, which gives NaN.
    """
    widened = copy_attention.to(dtype)
    limit = torch.finfo(copy_attention.dtype).max
    if widened.requires_grad and widened is not copy_attention:
        widened.register_hook(lambda gradient: gradient.clamp(-limit, limit))
    return widened


def mean_over_targets(
    values: torch.Tensor, labels: torch.Tensor, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    """The sum of values (B, T) over the target tokens, divided by their number, as a scalar.

    `labels` (B, T) are -100 at positions without a target. `num_items_in_batch` replaces the number of target tokens,
    as in `smoothed_cross_entropy`.
    """
    if num_items_in_batch is None:
        num_items_in_batch = (labels != IGNORED_LABEL).sum().clamp(min=1)
    values = values.masked_fill(labels == IGNORED_LABEL, 0.0)
    # each row may have a divisor, so the division comes before the sum
    return (values / num_items_in_batch).sum()


def smoothed_cross_entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    smoothing: float,
    num_items_in_batch: torch.Tensor | int | None = None,
    normalize: bool = True,
    vocab_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Label-smoothed cross-entropy: per token (1 - ε) NLL + ε · mean over the vocabulary of -log p.

    The sum over target tokens is divided by `num_items_in_batch`, the number of target tokens in all accumulated
    batches, or by default in this batch. Gradient accumulation therefore does not change the loss.

    Args:
        logits: (B, T, V), unnormalized or log-probabilities.
        labels: (B, T), -100 at ignored positions.
        smoothing: ε, at least 0 and below 1.
        num_items_in_batch: the number to divide by, or (B, 1), one for each row.
        normalize: whether to normalize the logits; if not, they must be log-probabilities.
        vocab_size: number of words; by default V. The scores after them are of pointers, which are not smoothed.

    Returns:
        The loss, and the negative log-likelihood without smoothing, normalized in the same way and detached; scalars,
        float64 if the logits are, otherwise float32.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if num_items_in_batch is None:
        num_items_in_batch = (labels != IGNORED_LABEL).sum().clamp(min=1)
    settings = _LossSettings(smoothing, num_items_in_batch, normalize, vocab_size)
    if needs_plain_operations(logits):
        loss, nll, _ = _smoothed(logits, labels, settings)
        return loss, nll.detach()
    return _SmoothedCrossEntropy.apply(logits, labels, settings)


class _LossSettings(NamedTuple):
    """The arguments of `smoothed_cross_entropy` besides logits and labels."""

    smoothing: float
    num_items_in_batch: torch.Tensor | int
    normalize: bool
    vocab_size: int | None


def _smoothed(
    logits: torch.Tensor, labels: torch.Tensor, settings: _LossSettings
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The loss and the NLL, both scalars, and the log-normalizers (B, T, 1), which are zero without normalization."""
    if settings.normalize:
        log_normalizers = logits.logsumexp(-1, keepdim=True)
    else:
        log_normalizers = logits.new_zeros(*labels.shape, 1)
    label_scores = logits.gather(-1, labels.clamp(min=0)[..., None])
    nll = mean_over_targets((log_normalizers - label_scores)[..., 0], labels, settings.num_items_in_batch)
    uniform = nll.new_zeros(())
    if settings.smoothing != 0.0:
        mean_scores = logits[..., : settings.vocab_size].mean(-1)
        uniform = mean_over_targets(log_normalizers[..., 0] - mean_scores, labels, settings.num_items_in_batch)
    # transformers scales the loss in place, so the loss must not be the tensor of the NLL
    loss = (1.0 - settings.smoothing) * nll + settings.smoothing * uniform
    return loss, nll, log_normalizers


class _SmoothedCrossEntropy(torch.autograd.Function):
    """`_smoothed` with a backward pass of less memory.

    autograd would store one tensor of the logits' size each for normalizer, label and mean, and add three gradients.
    """

    @staticmethod
    def forward(context, logits, labels, settings):
        loss, nll, log_normalizers = _smoothed(logits, labels, settings)
        context.save_for_backward(logits, labels, log_normalizers)
        context.settings = settings
        context.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(context, loss_gradient, _):
        logits, labels, log_normalizers = context.saved_tensors
        settings = context.settings
        # the gradient of a target token's scores is softmax - (1 - ε) · label - ε / V
        is_target = labels != IGNORED_LABEL
        token_gradient = (loss_gradient / settings.num_items_in_batch * is_target)[..., None].to(logits.dtype)
        if settings.normalize:
            gradient = (logits - log_normalizers).exp_().mul_(token_gradient)
        else:
            gradient = torch.zeros_like(logits)
        if settings.smoothing != 0.0:
            word_gradient = gradient[..., : settings.vocab_size]
            word_gradient -= token_gradient * (settings.smoothing / word_gradient.shape[-1])
        gradient.scatter_add_(-1, labels.clamp(min=0)[..., None], token_gradient * (settings.smoothing - 1.0))
        return gradient, None, None


class CopyAttention(nn.Module):
    """A single-head attention on top of the decoder, whose weights are the copy distribution (Aksenov 2020, 6.3).

    `width` is C, the width of its inputs, and `layer_index` is the index of its keys in the cache.
    """

    def __init__(self, width: int, layer_index: int):
        super().__init__()
        self.layer_index = layer_index
        self.scaling = width**-0.5
        self.q_proj = nn.Linear(width, width)
        self.k_proj = nn.Linear(width, width)

    def forward(
        self,
        hidden_states: torch.Tensor,
        source: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
    ) -> torch.Tensor:
        """Queries (R, T, C) and source (B, S, C), R a multiple of B -> weights (R, T, S), each row summing to one.

        `attention_mask` (B, 1, 1, S) is true at tokens. The queries of a document's rows share its keys.
        """
        rows, length, width = hidden_states.shape
        documents = source.shape[0]
        queries = self.q_proj(hidden_states).view(documents, -1, width)
        keys = keys_once(self.k_proj, source, cache, self.layer_index)
        scores = product_of_rows(queries, keys.transpose(1, 2)) * self.scaling
        if attention_mask is not None:
            scores = scores.masked_fill(~attention_mask[:, 0], torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return weights.view(rows, length, -1)


def keys_once(
    project: Callable[[torch.Tensor], torch.Tensor],
    source: torch.Tensor,
    cache: EncoderDecoderCache | None,
    layer_index: int,
) -> torch.Tensor:
    """The keys (B, S, A) of a single-head attention to the source (B, S, C), computed once if there is a cache.

    Args:
        project: maps (B, S, C) to (B, S, A).
        cache: keeps the keys of the first call for later calls.
        layer_index: the attention's index in the cache.
    """
    if cache is not None and cache.is_updated.get(layer_index):
        return cache.cross_attention_cache.layers[layer_index].keys.squeeze(1)
    keys = project(source)
    if cache is not None:
        # the cache expects heads of both keys and values: give it one head, and values of width 0
        head_keys = keys[:, None]
        cache.cross_attention_cache.update(head_keys, head_keys[..., :0], layer_index)
        cache.is_updated[layer_index] = True
    return keys


class CoveragePenaltyLogitsProcessor(LogitsProcessor):
    """Lowers a beam's score by β (Σ_i max(coverage_i, 1) - S) for repeated copying (Aksenov 2020, section 6.3).

    The coverage of a source position is the sum of the copy distributions so far. Each step subtracts what its copy
    distribution adds to the penalty, so that the steps add up to the penalty of the whole text. All continuations of a
    beam lose the same amount: the penalty ranks beams, and has no effect on a single one.

    Call `observe` before each step, as the growth of the penalty does not follow from the token ids.
    """

    # the scores of a row depend on no other row
    is_by_row = True

    def __init__(self, penalty: float):
        self.penalty = penalty
        self._growth: torch.Tensor | None = None

    def observe(self, coverage: torch.Tensor, step: torch.Tensor) -> None:
        """Record the coverage (R, S) including the step to be scored, and that step's copy distribution (R, S)."""
        self._growth = coverage_growth(coverage, step)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores - self.penalty * self._growth[:, None].to(scores.device, scores.dtype)

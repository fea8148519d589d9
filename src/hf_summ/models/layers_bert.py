"""Contextual embeddings from BERT for documents of any length (thesis, sections 4.2.3 to 4.2.5)."""

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from .pretrained_parts import longest_input

# windows that BERT reads at a time: enough to keep it busy, and what else a long document needs stays small
_WINDOWS = 8
# last hidden states that are concatenated, as Devlin et al. (2019) recommend
HIDDEN_STATES = 4


def word_embeddings_name(bert: PreTrainedModel) -> str:
    """Dotted name of the word embeddings inside BERT, such as `embeddings.word_embeddings`."""
    embeddings = bert.get_input_embeddings()
    return next(name for name, module in bert.named_modules() if module is embeddings)


def window_starts(length: int, window_size: int, stride: int) -> list[int]:
    """Where a document's windows start: every `stride` tokens, the last one flush right with the document's end."""
    last = max(length - window_size, 0)
    return [*range(0, last, stride), last]


def _lengths(attention_mask: torch.Tensor) -> list[int]:
    """Tokens of each document, (B, S) -> B numbers."""
    real = attention_mask != 0
    positions = torch.arange(1, real.shape[1] + 1, device=real.device)
    # one look at what may be on an accelerator
    lengths, ends = torch.stack((real.sum(dim=1), (real * positions).amax(dim=1))).tolist()
    if lengths != ends:
        raise ValueError(
            "`attention_mask` has padding before or between tokens, but BERT's windows begin at a row's first place: "
            "pad documents on the right"
        )
    return lengths


class BertWindows(nn.Module):
    """BERT's last four hidden states, concatenated; long documents go through it in windows that overlap.

    Windows are slices of the document as it is, without special tokens of their own, and positions restart in each.
    Where windows overlap, their vectors are averaged. A frozen BERT holds the result and a few windows at a time, so
    that memory is linear in the length.

    Args:
        bert: an encoder made by `AutoModel` with at least four layers; its pooler, which nothing reads, is removed.
        window_size: tokens that BERT reads at once; not more than it has positions for.
        stride: tokens from one window's start to the next; not more than `window_size`.
        trainable: otherwise BERT is frozen: no gradients and no dropout, whatever the mode of the model that holds it.
    """

    def __init__(self, bert: PreTrainedModel, window_size: int, stride: int, trainable: bool = False):
        super().__init__()
        positions = longest_input(bert)
        if positions is not None and window_size > positions:
            raise ValueError(
                f"`bert_window_size` is {window_size}, but BERT has positions for {positions} tokens: take at most that"
            )
        if getattr(bert, "pooler", None) is not None:
            # parameters without gradients would upset distributed training
            bert.pooler = None
        self.bert = bert
        self.window_size = window_size
        self.stride = stride
        self.trainable = trainable
        self.train(bert.training)

    def train(self, mode: bool = True):
        """Set the mode, which is always evaluation when BERT is frozen."""
        if not self.trainable:
            # loading a checkpoint makes trainable parameters of all; it ends in `eval()`, which leads here
            self.bert.requires_grad_(False)
        return super().train(mode and self.trainable)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        """Token ids and their mask, padded on the right, (B, S) each -> (B, S, 4 * BERT's width), zero at padding."""
        documents, width = input_ids.shape
        lengths = [width] * documents if attention_mask is None else _lengths(attention_mask)
        # of documents without a token BERT reads some padding, of which nothing is kept
        longest = max(*lengths, 1)
        if documents <= _WINDOWS and longest <= self.window_size:
            return self._whole_documents(input_ids, attention_mask, longest)
        return self._averaged_windows(input_ids, lengths)

    def _whole_documents(self, input_ids, attention_mask, longest):
        if attention_mask is None:
            return self._hidden_states(input_ids)
        mask = attention_mask[:, :longest]
        states = self._hidden_states(input_ids[:, :longest], mask)
        states.masked_fill_((mask == 0).unsqueeze(-1), 0.0)
        padding = input_ids.shape[1] - longest
        return nn.functional.pad(states, (0, 0, 0, padding)) if padding else states

    def _averaged_windows(self, input_ids, lengths):
        width = input_ids.shape[1]
        # places in the flattened documents, and sizes
        windows = [
            (document * width + start, min(length, self.window_size))
            for document, length in enumerate(lengths)
            for start in window_starts(length, self.window_size, self.stride)
        ]
        # windows of like size together have little padding
        windows.sort(key=lambda window: window[1])
        total = None
        for first in range(0, len(windows), _WINDOWS):
            total = self._add_windows(total, input_ids, windows[first : first + _WINDOWS])
        counts = torch.zeros(input_ids.numel())
        for start, size in windows:
            counts[start : start + size] += 1
        total.div_(counts.clamp_(min=1).to(total).unsqueeze(-1))
        return total.unflatten(0, input_ids.shape)

    def _add_windows(self, total, input_ids, windows):
        """Adds the windows' vectors at their places, in place; makes the total, (B * S, 4 * BERT's width), if None."""
        starts, sizes = torch.tensor(windows).unsqueeze(-1).unbind(dim=1)
        offsets = torch.arange(max(int(sizes.max()), 1))
        mask = offsets < sizes
        # beyond a short window's end these stay within its row, and what stands there is masked
        places = starts + offsets
        real = mask.flatten().nonzero().squeeze(-1)
        device = input_ids.device
        states = self._hidden_states(input_ids.flatten()[places.to(device)], mask.long().to(device)).flatten(0, 1)
        if total is None:
            total = states.new_zeros(input_ids.numel(), states.shape[-1])
        return total.index_add_(0, places.flatten()[real].to(device), states[real.to(device)])

    def _hidden_states(self, input_ids, attention_mask=None):
        """(N, W) -> (N, W, 4 * BERT's width)"""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.trainable):
            output = self.bert(input_ids, attention_mask=attention_mask, output_hidden_states=True, return_dict=True)
            # asked for hidden states of its own, a model around BERT hooks BERT's layers once more, and transformers
            # then records each layer several times over
            times = len(output.hidden_states) // self.bert.config.num_hidden_layers
            return torch.cat(output.hidden_states[::-times][:HIDDEN_STATES][::-1], dim=-1)


class BertWordEmbedding(nn.Module):
    """BERT's word embeddings, reduced to a model's width (section 4.2.5).

    Args:
        config: BERT's.
        width: C, of the model.
        trainable: otherwise the words are frozen, and the reduction alone learns.
    """

    def __init__(self, config: PreTrainedConfig, width: int, trainable: bool = False):
        super().__init__()
        # ALBERT and ELECTRA have words narrower than their layers
        word_width = getattr(config, "embedding_size", None) or config.hidden_size
        self.words = nn.Embedding(config.vocab_size, word_width, config.pad_token_id)
        self.reduction = nn.Linear(word_width, width)
        self.trainable = trainable
        self.train()

    def train(self, mode: bool = True):
        """Set the mode, and keep the words as they are, unless they are to learn."""
        if not self.trainable:
            # loading a checkpoint makes trainable parameters of all; it ends in `eval()`, which leads here
            self.words.requires_grad_(False)
        return super().train(mode)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """(R, T) -> (R, T, C)."""
        return self.reduction(self.words(input_ids))

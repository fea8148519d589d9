"""Every text that a model over few tokens can write, with its probability: what beam search is compared with."""

import itertools
from collections.abc import Iterator

import torch


def all_texts(model, inputs, longest: int) -> Iterator[tuple[tuple[int, ...], float, list[float] | None]]:
    """Tokens and log p of each text that ends or has `longest` tokens, and the coverage of the places of its source."""
    end = model.config.eos_token_id
    for length in range(1, longest + 1):
        texts = []
        for tokens in itertools.product(range(model.config.vocab_size), repeat=length):
            is_complete = tokens[-1] == end or length == longest
            if is_complete and end not in tokens[:-1]:
                texts.append(tokens)
        sources = {name: value.expand(len(texts), -1) for name, value in inputs.items()}
        ids = torch.tensor([[1, *tokens] for tokens in texts])
        with torch.no_grad():
            outputs = model(**sources, decoder_input_ids=ids[:, :-1])
        # of a model that copies these are log-probabilities, which this leaves as they are
        log_p = outputs.logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).sum((1, 2)).tolist()
        attentions = getattr(outputs, "copy_attentions", None)
        coverage = [None] * len(texts) if attentions is None else attentions.sum(1).tolist()
        yield from zip(texts, log_p, coverage, strict=True)

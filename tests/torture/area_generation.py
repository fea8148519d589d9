"""Settings of `generate()`: those of the package and of transformers."""

import copy
import random
from pathlib import Path
from typing import Any

import torch

from tests.torture import values
from tests.torture.cases import Case
from tests.torture.checks import first_problem, rows_problem, texts_problem
from tests.torture.workshop import ARCHITECTURES, Workshop

_OWN = {
    "no_repeat_word_ngram_size": (0, 1, 2, 3, 50),
    "min_new_words": (0, 1, 3, 100),
    "gnmt_length_penalty": (0.0, 0.9, 5.0),
    "gnmt_length_offset": (0.0, 5.0),
    "coverage_penalty": (0.0, 0.5, 5.0),
    "english_articles": (True, False),
    "beam_stopping": ("opennmt", "drgd"),
    "ngram_blocking": ("token", "beam"),
    "support_weight": (0.0, 1.0, 1e4),
    "replace_unk": (True, False),
    "lm_rejected_factor": (0.5, 1.0),
    "sample_latent": (True, False),
    "latent_seed": (0, 7),
}
_THEIRS = {
    "num_beams": (1, 2, 4),
    "num_return_sequences": (1, 2),
    "do_sample": (True, False),
    "top_k": (1, 5, 0),
    "top_p": (0.5, 1.0, 0.01),
    "temperature": (0.1, 1.0, 50.0),
    "length_penalty": (0.0, 1.0, -3.0, 10.0),
    "repetition_penalty": (1.0, 2.0),
    "no_repeat_ngram_size": (0, 1, 2),
    "min_new_tokens": (0, 2, 6),
    "max_new_tokens": (1, 3, 6),
    "early_stopping": (True, False, "never"),
    "bad_words_ids": ([[5]], [[5, 6]]),
    "forced_eos_token_id": (2,),
    "suppress_tokens": ([2], [3, 4]),
    "renormalize_logits": (True,),
    "output_scores": (True,),
    "return_dict_in_generate": (True,),
    "use_cache": (False,),
}


def settings_of_generate(draw: random.Random) -> dict[str, Any]:
    """A few settings, mostly with sensible values."""
    known = {**_OWN, **_THEIRS}
    chosen = draw.sample(sorted(known), k=draw.choice((1, 2, 4)))
    settings: dict[str, Any] = {name: draw.choice(known[name]) for name in chosen}
    for name in chosen:
        kind = draw.random()
        if kind < 0.15:
            settings[name] = values.number(draw)
        elif kind < 0.2:
            settings[name] = values.junk(draw)
    return settings


def make(draw: random.Random, shop: Workshop, folder: Path) -> Case:
    """Documents, and settings of their decoding."""
    model_type = draw.choice(sorted(ARCHITECTURES))
    shared, processor = shop.model(model_type)
    settings = settings_of_generate(draw)
    documents = [values.some_text(draw) or "a" for _ in range(draw.choice((1, 2)))]

    def generate() -> Any:
        # a call changes the generation settings of the model
        model = copy.copy(shared)
        model.generation_config = copy.deepcopy(shared.generation_config)
        inputs = processor(documents, return_tensors="pt", max_length=40)
        return model.generate(**inputs, **{"max_new_tokens": 5, **settings}, tokenizer=processor)

    def problem(found: Any) -> str | None:
        ids = found if isinstance(found, torch.Tensor) else found.sequences
        number = len(documents) * (settings.get("num_return_sequences") or 1)
        texts = processor.batch_decode(ids, skip_special_tokens=True, documents=documents)
        return first_problem(
            rows_problem(ids, number, "sequences"),
            texts_problem(texts, number),
            None if isinstance(found, torch.Tensor) else _scores_problem(found),
        )

    return Case(f"{model_type} {settings} {documents!r:.200}", generate, problem, named=settings)


def _scores_problem(found: Any) -> str | None:
    scores = getattr(found, "sequences_scores", None)
    if scores is not None and bool(scores.isnan().any()):
        return f"scores of sequences are {scores}"
    steps = found.get("scores") or ()
    return "a step has NaN among its scores" if any(bool(step.isnan().any()) for step in steps) else None

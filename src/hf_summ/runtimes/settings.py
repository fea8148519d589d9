"""The settings of `generate()` that the search around graphs has."""

from collections.abc import Mapping
from typing import Any


class UnsupportedSetting(ValueError):
    """A setting that the search around graphs lacks."""


# settings that this search has; `max_length` and `min_length` are other names of limits
SUPPORTED = frozenset(
    {
        *("num_beams", "num_return_sequences", "length_penalty", "gnmt_length_penalty", "gnmt_length_offset"),
        *("early_stopping", "beam_stopping", "no_repeat_ngram_size", "no_repeat_word_ngram_size", "ngram_blocking"),
        *("min_new_tokens", "min_length", "min_new_words", "max_new_tokens", "max_length"),
        *("coverage_penalty", "replace_unk", "repetition_penalty", "max_time"),
        *("do_sample", "temperature", "top_k", "top_p", "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
    }
)
# values of other settings with which they have no effect, besides None and False
_NEUTRAL = {
    **dict.fromkeys(("encoder_repetition_penalty", "guidance_scale", "num_beam_groups", "typical_p"), 1),
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "diversity_penalty", "epsilon_cutoff", "eta_cutoff"), 0),
}
# without effect on the texts of a search
_NO_EFFECT = {
    *("use_cache", "transformers_version", "cache_implementation", "is_assistant", "tokenizer", "compile_config"),
    *("remove_invalid_values",),
    *("output_scores", "output_logits", "output_attentions", "output_hidden_states", "return_dict_in_generate"),
    # removed settings, which checkpoints of earlier versions have
    *("english_articles", "support_weight"),
}


def lacking(settings: Mapping[str, Any]) -> str | None:
    """The first setting that changes summaries and that the search lacks, or None."""
    for name, value in settings.items():
        is_read = name not in SUPPORTED and name not in _NO_EFFECT and not name.startswith("_")
        if is_read and value is not None and value is not False and value != _NEUTRAL.get(name):
            return name
    return None

"""The tests of other libraries that cannot apply, each with the reason; whatever is not listed passes."""

from collections.abc import Mapping
from fnmatch import fnmatch

_COPIES = "copying needs the source's subwords, which embeddings lack"
_BERT = "BERT reads subwords, not embeddings"
_RECURRENT = "it has no layers whose states could be returned"
_FIXED = "the vocabulary is BERT's"
_NESTED = "the nested BERT records its own outputs"
_RANK = "its rank of 20 exceeds that of oblong layers, where PEFT fails"
_FROZEN = "a frozen BERT is in evaluation mode, and recomputes nothing"

# patterns of a test's and of an architecture's name -> why it cannot apply
MODEL_TESTS: dict[tuple[str, str], str] = {
    ("test_eager_matches_sdpa_inference*", "gdlf"): "it gives no tags",
    ("test_hidden_states_output", "drgd*"): _RECURRENT,
    ("test_retain_grad_hidden_states_attentions", "drgd*"): _RECURRENT,
    ("test_hidden_states_output", "pointer_generator*"): _RECURRENT,
    ("test_retain_grad_hidden_states_attentions", "pointer_generator*"): _RECURRENT,
    ("test_eager_matches_sdpa_inference*", "pointer_generator*"): _RECURRENT,
    ("test_inputs_embeds", "gdlf-copy"): _COPIES,
    ("test_inputs_embeds", "copy_transformer"): _COPIES,
    ("test_inputs_embeds", "drgd-printed"): _COPIES,
    ("test_inputs_embeds", "highlight_transformer"): _COPIES,
    ("test_inputs_embeds", "pointer_generator*"): _COPIES,
    ("test_inputs_embeds", "sagcopy*"): _COPIES,
    ("test_inputs_embeds*", "copy_transformer-bert*"): _BERT,
    ("test_resize_*", "copy_transformer-bert*"): _FIXED,
    ("test_attention_outputs", "copy_transformer*"): "a convolutional layer has no weights over all positions",
    ("test_capture_outputs_decorator", "copy_transformer-bert*"): _NESTED,
    ("test_training_gradient_checkpointing*", "copy_transformer-bert"): _FROZEN,
    (
        "test_config_attn_implementation_setter",
        "copy_transformer-bert*",
    ): "the nested BERT keeps its default in place of `sdpa`, which some architectures lack",
    (
        "test_init_weights_can_init_buffers",
        "copy_transformer-bert-module",
    ): "the decoder reads none of the module's buffers",
}
PROCESSOR_TESTS: dict[tuple[str, str], str] = {
    ("test_call_arguments_*", "*"): "`__call__` names its arguments, so that their defaults are seen",
    ("test_processor_from_and_save_pretrained*", "*"): "it is saved with its code, which only the saved one names",
    ("test_replacement_offsets", "*"): "it has no images",
    ("test_subprocessor_defaults_0_text", "*"): "the processor adds the end token, which its tokenizer would not",
}
# names of tests and tuners, joined by a hyphen
PEFT_TESTS: dict[tuple[str, str], str] = {
    ("test_generate_with_mixed_adapter_batches-*", "[!b]*"): "beams share a document's keys, so they are refused",
    ("test_generate_half_prec-*", "copy_transformer-bert"): "its mask has a hole, which BERT's windows refuse",
    ("test_merge_layers-BeftConfig", "[gchp]*"): "BEFT merges into biases, which some of the adapted layers lack",
    ("test_weighted_combination_of_adapters-LoraConfig", "[gcd]*"): _RANK,
    ("*_layer_indexing-*", "drgd"): "it has no numbered layers",
    ("*_layer_indexing-*", "pointer_generator"): "it has no numbered layers",
    (
        "*_layer_indexing-PeanutConfig",
        "highlight_transformer",
    ): "the test takes PEANuT's own list, in the token shift, for the layers",
    ("*-PrefixTuningConfig", "[!b]*"): "these decoders keep a state of their own, not PEFT's keys and values",
    ("test_disable_adapter-PrefixTuningConfig", "bart"): "transformers 5.24 no longer generates from PEFT's prefix",
    ("*-Prompt*Config", "copy_transformer-bert"): _BERT,
    (
        "*-Prompt*Config",
        "drgd",
    ): "PEFT reads the sizes of a Transformer: give `num_layers`, `num_attention_heads`, `token_dim`",
    ("*-Prompt*Config", "highlight_transformer"): _COPIES,
    ("*-Prompt*Config", "pointer_generator"): _COPIES,
    ("*-Prompt*Config", "sagcopy"): _COPIES,
}


def reason(exceptions: Mapping[tuple[str, str], str], test: str, architecture: str) -> str | None:
    """Why a test cannot apply to an architecture; None if it must pass."""
    for (test_pattern, architecture_pattern), why in exceptions.items():
        if fnmatch(test, test_pattern) and fnmatch(architecture, architecture_pattern):
            return why
    return None

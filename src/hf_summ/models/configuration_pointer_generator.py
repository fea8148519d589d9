"""Configuration of the pointer-generator network."""

from huggingface_hub.dataclasses import strict

from .checks import Range
from .configuration_base import SIZE, SummarizationConfig


@strict
class PointerGeneratorConfig(SummarizationConfig):
    """Configuration of a pointer-generator (See et al. 2017); the defaults are the paper's for CNN/DailyMail.

    Args:
        vocab_size: size of the vocabulary shared by source and target.
        embedding_size: width of the word embeddings.
        hidden_size: width of the LSTMs' states, in each direction of the encoder.
        copy: whether words are also copied from the source; without it, the model is the paper's attention baseline.
        coverage: whether the attention reads its own sum over the earlier steps, and pays for repetition. The paper
            turns it on for the last 3,000 updates of a trained model.
        coverage_weight: λ, the weight of the coverage loss.
        recurrent_range: weights of new LSTMs are uniform between minus and plus this value.
        init_std: standard deviation of other new weights; the program's value needs long training.
        dropout: dropout of the embeddings and of the output layer's input.
        label_smoothing: ε of the loss, at least 0 and below 1.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every transformers configuration.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: likewise; set by the processor's `align`.
        unk_token_id, unknown_ids: the id of unknown words, and the number of ids from `vocab_size` on that tell words
            apart that the vocabulary lacks, for copying; 0 for subwords. Likewise set by `align`.
    """

    model_type = "pointer_generator"
    attribute_map = {"d_model": "hidden_size"}

    rules = {
        **SummarizationConfig.rules,
        **dict.fromkeys(("embedding_size", "hidden_size"), SIZE),
        **dict.fromkeys(("coverage_weight", "recurrent_range", "init_std"), Range(0)),
    }

    vocab_size: int = 50000
    embedding_size: int = 128
    hidden_size: int = 256
    copy: bool = True
    coverage: bool = False
    coverage_weight: float | int = 1.0
    recurrent_range: float | int = 0.02
    init_std: float | int = 1e-4
    dropout: float | int = 0.0
    label_smoothing: float | int = 0.0
    decoder_start_token_id: int | None = 1


__all__ = ["PointerGeneratorConfig"]

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
        coverage: whether the attention reads the coverage, the sum of the attention of earlier steps, and whether the
            loss penalizes repeated attention. The paper turns it on for the last 3,000 updates of a trained model.
        coverage_weight: λ, the weight of the coverage loss.
        recurrent_range: weights of new LSTMs are uniform between minus and plus this value.
        init_std: standard deviation of other new weights; the program's value needs long training.
        dropout: dropout of the embeddings and of the output layer's input.
        label_smoothing: ε of the loss, at least 0 and below 1.
        use_cache, is_encoder_decoder, tie_word_embeddings: as in every transformers configuration.
        pad_token_id, bos_token_id, eos_token_id, decoder_start_token_id: ids of special tokens, as in every
            transformers configuration; the processor's `align` sets them.
        unk_token_id: id of unknown words; `align` sets it too.
        unknown_ids: number of ids from `vocab_size` on, which tell apart the words of a document that the vocabulary
            lacks, so that they can be copied; 0 for a vocabulary of subwords. `align` sets it too.
    """

    model_type = "pointer_generator"
    attribute_map = {"d_model": "hidden_size"}

    rules = {
        **SummarizationConfig.rules,
        "embedding_size": SIZE,
        "hidden_size": SIZE,
        "coverage_weight": Range(0),
        "recurrent_range": Range(0),
        "init_std": Range(0),
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

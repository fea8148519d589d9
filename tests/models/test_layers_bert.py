"""BERT in windows against windows that are read one by one and averaged vector by vector."""

import pytest
import torch
from transformers import AutoModel, BertConfig, DistilBertConfig, ModernBertConfig, RobertaConfig

from benchmarks.measuring import peak_mebibytes
from hf_summ.models.layers_copy_transformer import BertInputLayer, BertWindows, window_starts, word_embeddings_name
from tests.models.naive import assert_equals_with_gradients, naive_windows

WINDOW, STRIDE, VOCABULARY = 8, 4, 50
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 12, "num_attention_heads": 2}
CONFIGS = {
    # wide initial weights, else tokens' contexts hardly show
    "bert": BertConfig(
        num_hidden_layers=5, intermediate_size=16, max_position_embeddings=WINDOW, initializer_range=0.5, **SIZES
    ),
    # its positions begin behind the padding token's id
    "roberta": RobertaConfig(
        num_hidden_layers=4, intermediate_size=16, max_position_embeddings=WINDOW + 2, initializer_range=0.5, **SIZES
    ),
    "distilbert": DistilBertConfig(
        vocab_size=VOCABULARY, dim=12, n_heads=2, n_layers=4, hidden_dim=16, max_position_embeddings=WINDOW
    ),
}
# below, at and one beyond a window; multiples of the stride, and one beyond them
LENGTHS = [1, 5, 8, 9, 11, 12, 13, 16, 17, 40, 41]


def make(family="bert", window_size=WINDOW, stride=STRIDE, trainable=False) -> BertWindows:
    return BertWindows(AutoModel.from_config(CONFIGS[family]).double(), window_size, stride, trainable)


def documents(lengths, padding=0):
    """Ids without RoBERTa's padding token; what stands at padding is anything but a padding token."""
    input_ids = torch.randint(3, VOCABULARY, (len(lengths), max(lengths) + padding))
    mask = (torch.arange(input_ids.shape[1]) < torch.tensor(lengths)[:, None]).long()
    return input_ids, mask


@pytest.mark.thorough
@pytest.mark.parametrize("family", CONFIGS)
def test_windows_of_a_mixed_batch_equal_the_naive_ones(family):
    module = make(family)
    # 38 windows, several batches of them, and padding behind the longest
    input_ids, mask = documents(LENGTHS, padding=3)
    actual = module(input_ids, mask)
    assert actual.shape == (len(LENGTHS), 44, 4 * 12)
    torch.testing.assert_close(actual, naive_windows(module.bert, input_ids, mask, WINDOW, STRIDE))
    assert not actual[mask == 0].any()
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(module(input_ids[row : row + 1, :length])[0], actual[row, :length])


CASES_OF_LENGTHS = [[3, 8, 5], [3, 4, 5], [7] * 20, [2, 8] * 9]


@pytest.mark.parametrize("lengths", CASES_OF_LENGTHS)
def test_documents_of_one_window_each_equal_the_naive_ones(lengths):
    module = make()
    input_ids, mask = documents(lengths, padding=4)
    torch.testing.assert_close(module(input_ids, mask), naive_windows(module.bert, input_ids, mask, WINDOW, STRIDE))


CASES_OF_WINDOWS = [(8, 8), (8, 1), (7, 3), (5, 4)]


@pytest.mark.parametrize(("window_size", "stride"), CASES_OF_WINDOWS)
def test_any_stride_up_to_the_window(window_size, stride):
    module = make(window_size=window_size, stride=stride)
    input_ids, mask = documents([23, 6, 17])
    expected = naive_windows(module.bert, input_ids, mask, window_size, stride)
    torch.testing.assert_close(module(input_ids, mask), expected)


CASES_OF_WINDOWS_IN_GRAPHS = [(8, 4), (8, 8), (7, 3), (5, 4)]


@pytest.mark.parametrize(("window_size", "stride"), CASES_OF_WINDOWS_IN_GRAPHS)
def test_windows_of_a_graph_equal_the_naive_ones(window_size, stride):
    module = make(window_size=window_size, stride=stride)
    for lengths, padding in (([23, 6, 17], 2), ([1], 0), ([3, 5], 1), ([17, 16], 0)):
        input_ids, mask = documents(lengths, padding)
        width = input_ids.shape[1]
        length = min(width, window_size)
        starts, offsets = torch.arange(0, width - length + stride, stride), torch.arange(length)
        expected = naive_windows(module.bert, input_ids, mask, window_size, stride)
        torch.testing.assert_close(module.read_windows(input_ids, mask, starts, offsets), expected)


def test_last_window_is_flush_right_with_the_end():
    assert window_starts(512, 512, 256) == [0]
    assert window_starts(513, 512, 256) == [0, 1]
    assert window_starts(1024, 512, 256) == [0, 256, 512]
    assert window_starts(1025, 512, 256) == [0, 256, 512, 513]
    assert window_starts(1500, 512, 256) == [0, 256, 512, 768, 988]


@pytest.mark.parametrize("lengths", [[13, 9, 41, 3, 8], [3, 8]], ids=["windows", "whole documents"])
def test_gradients_of_a_trainable_bert_equal_the_naive_ones(lengths):
    module = make(trainable=True).eval()
    input_ids, mask = documents(lengths, padding=1)
    expected = naive_windows(module.bert, input_ids, mask, WINDOW, STRIDE)
    assert_equals_with_gradients(module(input_ids, mask), expected, **dict(module.bert.named_parameters()))


def test_trainable_bert_drops_out_in_training_alone():
    module = make(trainable=True)
    input_ids, mask = documents([13, 3])
    assert not torch.equal(module.train()(input_ids, mask), module(input_ids, mask))
    torch.testing.assert_close(module.eval()(input_ids, mask), module(input_ids, mask), rtol=0, atol=0)


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pooler_is_removed_and_all_other_parameters_are_used(family):
    assert any(name.startswith("pooler") for name, _ in AutoModel.from_config(CONFIGS[family]).named_parameters())
    module = make(family, trainable=True)
    module(*documents([13, 3])).sum().backward()
    assert not any("pooler" in name for name in module.state_dict())
    assert all(parameter.grad is not None for parameter in module.parameters())


@pytest.mark.parametrize("family", CONFIGS)
def test_word_embeddings_are_found_by_name(family):
    bert = AutoModel.from_config(CONFIGS[family])
    assert word_embeddings_name(bert) == "embeddings.word_embeddings"
    assert bert.get_submodule(word_embeddings_name(bert)) is bert.get_input_embeddings()


@pytest.mark.parametrize("lengths", [[13, 9, 3], [5, 8]], ids=["windows", "whole documents"])
def test_half_precision_is_near_to_the_whole(lengths):
    module = make()
    input_ids, mask = documents(lengths)
    expected = module(input_ids, mask)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = module.float()(input_ids, mask)
    half = module.bfloat16()(input_ids, mask)
    assert half.dtype == torch.bfloat16
    for actual in (mixed, half):
        # layer norm's outputs are about one in size
        assert (actual.double() - expected).abs().mean() < 0.03


@pytest.mark.thorough
def test_memory_is_linear_in_the_length():
    module = make()
    shorter, longer = documents([1000]), documents([4000])
    first, second = peak_mebibytes(lambda: module(*shorter)), peak_mebibytes(lambda: module(*longer))
    assert second <= 4.5 * first
    # the result, a number a position to count windows, and little else
    result = 4000 * 4 * 12 * 8 / 2**20
    assert second <= 1.25 * result


@pytest.mark.parametrize("family", CONFIGS)
def test_input_layer_reads_words_as_the_embedding_module_does(family):
    bert = AutoModel.from_config(CONFIGS[family]).double().eval()
    words = bert.get_input_embeddings()
    input_ids, _ = documents([WINDOW, WINDOW])
    expected = bert.embeddings(input_ids)
    layer = BertInputLayer(bert, 5, dropout=0.0).double()
    actual = torch.cat([layer(words(input_ids[:, :3])), layer(words(input_ids[:, 3:]), seen=3)], dim=1)
    torch.testing.assert_close(actual, layer.reduction(expected))
    with pytest.raises(ValueError, match="the text has 9 tokens, but BERT has 8 positions"):
        layer(words(input_ids[:, :1]), seen=WINDOW)


def test_input_layer_needs_learned_positions():
    sizes = {"num_hidden_layers": 1, "intermediate_size": 8, "pad_token_id": 0}
    with pytest.raises(ValueError, match="needs a BERT with learned positions, but modernbert has none"):
        BertInputLayer(AutoModel.from_config(ModernBertConfig(**SIZES, **sizes)), 5, dropout=0.0)

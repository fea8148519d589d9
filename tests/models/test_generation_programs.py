"""The searches of the published programs, through `generate()`, against plain ones for one document at a time.

These restate docs/equations.md, section 0.
"""

import functools
import math
import random
import re

import pytest
import torch
from transformers import LogitsProcessor

from hf_summ.data import fit_vocabulary
from hf_summ.models.generation_mixin import ForbiddingLogitsProcessor
from hf_summ.models.generation_rules import EndRepetitions
from hf_summ.models.text_documents import word_table
from tests.conftest import SENTENCES, first
from tests.models.architectures import GDLF, VOCAB_SIZE, build_with_processor

START, END, PADDING = 1, 2, 3
DOCUMENTS = 20


class TableScores(LogitsProcessor):
    """Scores of the next token by the last two; a document is told by the second id of its prompt."""

    is_by_row = True

    def __init__(self, seed: int):
        draw = torch.Generator().manual_seed(seed)
        shape = (DOCUMENTS, VOCAB_SIZE, VOCAB_SIZE, VOCAB_SIZE)
        # few tokens are likely, so that texts repeat themselves
        scores = 2.5 * torch.randn(shape, generator=draw)
        scores[..., END] += 4.0 * torch.rand((DOCUMENTS, 1, 1), generator=draw)
        scores[..., PADDING] = -100.0
        self.table = scores.log_softmax(-1)

    def __call__(self, input_ids, scores):
        table_scores = self.table[input_ids[:, 1], input_ids[:, -2], input_ids[:, -1]]
        return table_scores.masked_fill(scores.isneginf(), -torch.inf)

    def after(self, document: int, text: list[int]) -> list[float]:
        previous, last = [START, document, *text][-2:]
        return self.table[document, previous, last].tolist()


def repeats(units: list, size: int) -> bool:
    """Whether the last units have occurred before."""
    earlier = [units[start : start + size] for start in range(len(units) - size)]
    return size > 0 and units[-size:] in earlier


def continuations(running, scores, blocked, least=0):
    """What can follow the running texts, best first; nothing follows a text that repeats itself."""
    longer = []
    for total, text in running:
        if repeats(text, blocked):
            continue
        for token, score in enumerate(scores(text)):
            if token != END or len(text) >= least:
                longer.append((total + score, [*text, token]))
    return sorted(longer, reverse=True)


def fairseq(scores, beams, least, longest, blocked, penalty, wanted):
    running, ended = [(0.0, [])], []
    while len(ended) < beams and running:
        found = continuations(running, scores, blocked, least)
        if not found:
            return sorted(ended, reverse=True) or running
        # an end is forced where the text may not be longer
        if len(found[0][1]) == longest:
            found = [(total, text) for total, text in found if text[-1] == END]
        found = found[: 2 * beams]
        ended += [(total / penalty(len(text)), text) for total, text in found[:beams] if text[-1] == END]
        running = [(total, text) for total, text in found if text[-1] != END][:beams]
    return sorted(ended, reverse=True)


def opennmt(scores, beams, least, longest, blocked, penalty, wanted):
    running, ended, best_has_ended = [(0.0, [])], [], False
    while len(ended) < wanted or not best_has_ended:
        found = continuations(running, scores, blocked, least)[:beams]
        if not found:
            return sorted(ended, reverse=True) or running
        is_over = len(found[0][1]) == longest
        ended += [(total / penalty(len(text)), text) for total, text in found if text[-1] == END or is_over]
        best_has_ended |= found[0][1][-1] == END or is_over
        running = [(total, text) for total, text in found if text[-1] != END]
    return sorted(ended, reverse=True)


def drgd(scores, beams, least, longest, blocked, penalty, wanted):
    running, ended = [(0.0, [])], []
    for _ in range(longest):
        found = continuations(running, scores, blocked)[: beams - len(ended)]
        if not found:
            running = [] if ended else running
            break
        ended += [(total, text) for total, text in found if text[-1] == END]
        running = [(total, text) for total, text in found if text[-1] != END]
    summaries = []
    for total, text in ended + running:
        tokens = len(text) - (text[-1] == END)
        summaries.append((tokens < least, -total / penalty(tokens + 1), text))
    is_any_long = any(not is_short for is_short, _, _ in summaries)
    return [(is_short and is_any_long, text) for is_short, _, text in sorted(summaries)]


def texts_of(seed, **settings):
    """The texts (documents, number returned) that `generate()` finds, with their ends."""
    prompts = torch.tensor([[START, document] for document in range(DOCUMENTS)])
    output = GDLF.model(vocab_size=VOCAB_SIZE).generate(
        **GDLF.inputs(rows=DOCUMENTS),
        **settings,
        pad_token_id=PADDING,
        decoder_input_ids=prompts,
        logits_processor=[TableScores(seed)],
    )
    texts = []
    for row in output[:, 2:].tolist():
        texts.append([token for token in row if token != PADDING])
    number = settings["num_return_sequences"]
    return [texts[start : start + number] for start in range(0, len(texts), number)]


@pytest.mark.parametrize("seed", first(range(12), 4))
@pytest.mark.parametrize("program", [fairseq, opennmt, drgd])
def test_texts_are_those_of_the_program(program, seed):
    draw = random.Random(f"{program.__name__} {seed}")
    beams = draw.choice([2, 3, 5, 8])
    least = draw.choice([0, 3, 6])
    longest = draw.choice([8, 12])
    size = seed % 4
    alpha = draw.choice([0.0, 0.6, 2.0])
    offset = draw.choice([5.0, 9.0])
    # of several, fairseq drops others among those that end together, and DRGD's program writes one
    wanted = draw.randint(1, beams) if program is opennmt else 1
    settings = {"num_beams": beams, "num_return_sequences": wanted, "min_new_tokens": least, "max_new_tokens": longest}
    settings |= {"no_repeat_ngram_size": size, "ngram_blocking": "beam"}
    settings |= {"gnmt_length_penalty": alpha, "gnmt_length_offset": offset}
    if program is fairseq:
        settings |= {"early_stopping": True, "forced_eos_token_id": END}
    else:
        settings["beam_stopping"] = program.__name__
    table = TableScores(seed)

    def penalty(length):
        return math.pow((offset + length) / (offset + 1), alpha)

    for document, texts in enumerate(texts_of(seed, **settings)):
        after = functools.partial(table.after, document)
        expected = program(after, beams, least, longest, size, penalty, wanted)
        expected = [text for _, text in expected[:wanted]]
        assert texts[: len(expected)] == expected


def generate_words(**settings):
    """The texts that a model writes whose tokens are words."""
    tokenizer = fit_vocabulary(SENTENCES, vocab_size=300, min_frequency=1, show_progress=False, units="words")
    model, processor = build_with_processor(GDLF, tokenizer)
    inputs = processor(SENTENCES, padding=True, return_tensors="pt")
    biases = 2 * torch.randn(len(tokenizer), generator=torch.Generator().manual_seed(0))
    biases = [[[token], bias] for token, bias in enumerate(biases.tolist())]
    settings = {"num_beams": 4, "max_new_tokens": 12, "tokenizer": processor, "sequence_bias": biases, **settings}
    return model.generate(**inputs, **settings).tolist()


@pytest.mark.thorough
def test_beams_end_after_words_that_repeat():
    for size in (1, 2, 3):
        ended = generate_words(no_repeat_word_ngram_size=size, ngram_blocking="beam")
        assert ended == generate_words(no_repeat_ngram_size=size, ngram_blocking="beam")
        assert ended != generate_words(no_repeat_word_ngram_size=size)


def test_word_that_is_begun_counts_as_it_stands(tiny_tokenizer):
    table = word_table(tiny_tokenizer, len(tiny_tokenizer))
    processor = ForbiddingLogitsProcessor(EndRepetitions(2, table.words, 1))
    ids = tiny_tokenizer(SENTENCES[0] * 2, add_special_tokens=False).input_ids
    ends, expected = [], []
    for length in range(1, len(ids) + 1):
        scores = processor(torch.tensor([[START, *ids[:length]]]), torch.zeros(1, 9))
        ends.append(bool(scores.isneginf().all()))
        expected.append(repeats(table.words(ids[:length]), 2))
    assert ends == expected
    assert any(ends)
    assert not all(ends)


RULES = [{"beam_stopping": "opennmt"}, {"beam_stopping": "drgd"}, {"ngram_blocking": "beam"}]


@pytest.mark.parametrize("rule", RULES)
def test_rules_that_transformers_does_not_have_are_refused_where_it_searches(rule):
    ((name, value),) = rule.items()
    for setting, asked in (("do_sample", True), ("use_cache", False), ("output_scores", True)):
        message = (
            f"`{name}` is '{value}', which the beam search of transformers lacks, but `{setting}` needs that search: "
            "omit one of them"
        )
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            GDLF.model().generate(
                **GDLF.inputs(), **rule, num_beams=2, max_new_tokens=4, return_dict_in_generate=True, **{setting: asked}
            )


def test_one_beam_has_no_rules():
    settings = {"max_new_tokens": 8, "min_new_tokens": 5, "no_repeat_ngram_size": 1}
    model, inputs = GDLF.model(), GDLF.inputs()
    ruled = model.generate(**inputs, **settings, beam_stopping="drgd", ngram_blocking="beam")
    assert torch.equal(ruled, model.generate(**inputs, **settings))

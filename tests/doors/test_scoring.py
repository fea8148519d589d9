"""ROUGE, BLEU, novelty, support and statistics; `hf-summ evaluate`; flags that change what is written."""

import contextlib
import math
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from hypothesis import strategies as st

from hf_summ import evaluation
from tests.conftest import SENTENCES
from tests.data.files import json_lines, write
from tests.doors import strategies
from tests.doors.outcomes import Ignored, check_scores, command, door, strict_json, tried, unchanged

_ROUGE = strategies.choices(
    """rouge_types=["rouge1","rougeL"]|["rougeLsum"]|["rougeSU4"]|["rougeSU*"]|["rouge-1"]|[""]
    sentences=split|lines|words several=null|best|pooled|most units=words|lcsts|spaced
    byte_limit=null|1|75|0|-1|1e30 word_limit=null|1|100|0|-1 use_stemmer=true"""
)
_EVALUATE = strategies.choices(
    """resamples=10|100|0|-1|x seed=0|-1|99 rouge_mode=rouge155|rouge_score rouge_types=["rouge1"]|["rouge"]|[""]
    separator=none|<q> several=mean|best|pooled word_limit=1|0|50 units=lcsts|words|spaced average=micro|mean
    count_punctuation format=latex|json|html metrics=chrf|bleu|bertscore=none|support=x nothing=3"""
) | {"language": strategies.languages}
# measures of novelty that are not shares
_UNBOUNDED = ("copy_density", "compression", "length")


@st.composite
def _pairs(draw):
    """Predictions and references, mostly in equal numbers."""
    predictions = draw(strategies.text_lists(least=1))
    texts = predictions if isinstance(predictions, list) else ["a"]
    references = [draw(strategies.texts) for _ in texts]
    several = [[reference, *draw(st.lists(strategies.texts, max_size=2))] for reference in references]
    # the predictions without a character, for high scores
    nearly_equal = [str(text)[:9] + str(text)[10:] for text in texts]
    usual = st.sampled_from((references, nearly_equal, several))
    odd = st.sampled_from((references[1:], "a", references[1:] + [3], [[]]))
    return predictions, draw(strategies.mostly(usual, odd))


def _check_rows(scores, texts, most: float = 100) -> None:
    # a text is not an iterable of texts
    assert not isinstance(texts, str)
    assert len(scores) == len(texts)
    # a row without a value has NaN
    values = [score for score in scores if not math.isnan(score)]
    check_scores(values, most=most)


@door(
    pairs=_pairs(),
    mode=strategies.one_of("rouge_score", "rouge155"),
    code=strategies.languages,
    options=strategies.few(_ROUGE, 2),
)
def test_rouge(pairs, mode, code, options):
    settings = {"rouge_mode": mode, "use_stemmer": False, "language": code, **options}
    scores = tried(lambda: evaluation.rouge(*pairs, evaluation.RougeSettings(**settings)))
    assert scores
    for measure in scores.values():
        for column in measure:
            _check_rows(column, pairs[0])


@door(
    pairs=_pairs(),
    code=strategies.languages,
    count=strategies.one_of("types", "tokens", "all"),
    average=strategies.one_of("macro", "micro"),
)
def test_novelty(pairs, code, count, average):
    scores = tried(lambda: evaluation.novelty(*pairs, code, average, count) | evaluation.support(*pairs, code))
    for name, scored in scores.items():
        most = 1e9 if name in _UNBOUNDED else 100
        _check_rows(scored.rows(), pairs[0], most)
        check_scores([scored.value() or 0.0], most=most)


@door(pairs=_pairs(), code=strategies.languages)
def test_bleu_and_statistics(pairs, code):
    predictions, _ = pairs
    scores = tried(lambda: evaluation.bleu(*pairs, code) | evaluation.chrf(*pairs))
    check_scores(scored.value() for scored in scores.values())
    assert all(len(scored.statistics) == len(predictions) for scored in scores.values())
    statistics = tried(lambda: evaluation.corpus_statistics(*pairs, code))
    check_scores(statistics.values(), most=1e9)


@door(
    data=st.data(),
    folder=strategies.folders,
    names=st.sets(st.sampled_from(("references", "sources", "against"))).map(sorted),
    numbers=strategies.mostly(st.sampled_from((1, 2, 4)).map(lambda number: [number] * 4), st.just([2, 3, 2, 2])),
    flags=strategies.few_flags(_EVALUATE, 2),
)
def test_evaluate(data, folder, names, numbers, flags):
    columns = {"sources": "document", "against": "prediction", "predictions": "prediction", "references": "reference"}
    for name, number in zip(("predictions", *names), numbers, strict=False):
        rows = [{columns[name]: data.draw(strategies.lines), "id": row} for row in range(number)]
        ending = data.draw(st.sampled_from(("txt", "jsonl")))
        content = data.draw(strategies.written(rows, ending))
        file = folder / f"{name}.{ending}"
        file.write_bytes(data.draw(strategies.mostly(st.just(content), strategies.spoiled(content))))
        flags += [f"--{name}", str(file)]
    output, scores = folder / "report.json", folder / "scores.jsonl"
    with unchanged(*folder.iterdir()):
        tried(lambda: command("evaluate", *flags, "--output", output, "--scores", scores))
    report = strict_json(output.read_text(encoding="utf-8"))
    lines = [strict_json(line) for line in scores.read_text(encoding="utf-8").splitlines()]
    number_of_systems = 2 if "against" in names else 1
    assert len(lines) == report["pairs"] * number_of_systems
    for metric in report["rouge"].values():
        for figures in metric.values():
            check_scores(value for value in figures.values() if isinstance(value, float))


# flags of commands that change what is written wherever they are accepted
_CHANGING = {
    "evaluate": """rouge_types=rouge2 no_stemmer byte_limit=20|0 units=lcsts|spaced word_limit=3|0 several=best
        average=micro count=tokens count_punctuation resamples=50|1|0 seed=5|-1 sentences=lines rouge_mode=rouge_score
        format=json|latex""",
    "extract": "method=last|random sentences=1|2|0 language=x",
}


@door(data=st.data(), folder=strategies.folders, name=st.sampled_from(sorted(_CHANGING)))
def test_each_flag_changes_what_is_written(data, folder, name):
    texts = [" ".join(SENTENCES[row:] + SENTENCES[:row]) for row in range(4)]
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in texts))
    rows = [{"references": [texts[row - 1], texts[row - 2][:60]]} for row in range(4)]
    write(folder / "references.jsonl", json_lines(rows))
    if name == "evaluate":
        files = [f"--predictions={folder}/texts.txt", f"--references={folder}/references.jsonl"]
    else:
        files = [folder / "texts.txt"]
    flags = data.draw(strategies.few(strategies.choices(_CHANGING[name])))

    def written(left_out: str = "") -> str:
        tokens = []
        for flag, value in flags.items():
            if flag != left_out:
                tokens.append(f"--{flag}" if value is None else f"--{flag}={value}")
        with redirect_stdout(StringIO()) as printed:
            command(name, *files, *tokens)
        return printed.getvalue()

    with_all_flags = tried(written)
    for flag in flags:
        # the command fails without the flag if another flag needs it
        with contextlib.suppress(ValueError, SystemExit), redirect_stderr(StringIO()):
            if written(flag) == with_all_flags:
                raise Ignored(f"--{flag} {flags[flag]}")

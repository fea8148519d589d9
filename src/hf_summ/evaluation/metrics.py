"""ROUGE, BLEU, novelty and support as metrics of the library `evaluate`, which only this module imports."""

import inspect
from collections.abc import Callable
from typing import Any

import evaluate
from datasets import Features, Sequence, Value

from hf_summ.evaluation.bleu import bleu
from hf_summ.evaluation.novelty import novelty
from hf_summ.evaluation.rouge import rouge
from hf_summ.evaluation.support import support

_TEXT = Value("string")
_REFERENCES = [
    # `evaluate` tries them in this order: a string is not a list of references
    Features({"predictions": _TEXT, "references": Sequence(_TEXT)}),
    Features({"predictions": _TEXT, "references": _TEXT}),
]
_INPUTS = """
Args:
    predictions: one text per row.
"""
_SOURCES = Features({"predictions": _TEXT, "sources": _TEXT})
_WITH_SOURCES = f"{_INPUTS}    sources: one document per row.\n"
_WITH_REFERENCES = f"{_INPUTS}    references: one text per row, or a list of several.\n"
_SETTINGS = inspect.signature(evaluate.EvaluationModule.__init__).parameters


class _TextMetric(evaluate.Metric):
    """A function of texts as a metric.

    Args:
        settings: those of `evaluate.Metric`, such as `experiment_id`, `keep_in_memory` and `cache_dir`, and keyword
            arguments of the function. `compute` also takes the latter, which then take precedence. The `compute` of a
            combination passes its arguments to all metrics, so give them here for a combination.

    Raises:
        TypeError: the function has no such argument.
    """

    measure: Callable[..., dict[str, Any]]

    def __init__(self, **settings: Any):
        self.options = {name: settings.pop(name) for name in settings.keys() - _SETTINGS.keys()}
        inspect.signature(self.measure).bind_partial(**self.options)
        super().__init__(**settings)

    def compute(self, *, predictions=None, references=None, **kwargs) -> Any:
        """The measures of the texts given here or added before; None in all processes but the first."""
        if "sources" not in self._feature_names():
            # meant for another metric of a combination
            kwargs.pop("sources", None)
        return evaluate.Metric.compute(self, predictions=predictions, references=references, **kwargs)

    def _compute(self, **inputs: Any) -> dict[str, Any]:
        return self.measure(**self.options | inputs)


class Rouge(_TextMetric):
    """`hf_summ.evaluation.rouge` as a metric of `evaluate`: `Rouge(rouge_mode="rouge155").compute(predictions=…,
    references=…)`.

    Args:
        settings: those of `evaluate.Metric`, and keyword arguments of `rouge`.

    Raises:
        TypeError: `rouge` has no such argument.
    """

    measure = staticmethod(rouge)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="ROUGE (F, mean over the rows, in points) as Google's rouge-score computes it or, with "
            'rouge_mode="rouge155", as the Perl script ROUGE-1.5.5 does.',
            citation=_ROUGE,
            features=_REFERENCES,
            inputs_description=f"{_WITH_REFERENCES}    rouge_mode, use_stemmer, …: see hf_summ.evaluation.rouge.\n",
            reference_urls=["https://aclanthology.org/W04-1013"],
        )

    def _compute(self, **inputs: Any) -> dict[str, Any]:
        rows = inputs["references"]
        # a list column of a data set gives lists of one reference
        if all(not isinstance(row, str) and len(row) == 1 for row in rows):
            inputs["references"] = [row[0] for row in rows]
        return super()._compute(**inputs)


class Bleu(_TextMetric):
    """`hf_summ.evaluation.bleu` as a metric of `evaluate`; settings and errors as for `Rouge`."""

    measure = staticmethod(bleu)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="BLEU of the corpus, in points, computed by sacrebleu.",
            citation=_BLEU,
            features=_REFERENCES,
            inputs_description=f"{_WITH_REFERENCES}    tokenize, lowercase: see hf_summ.evaluation.bleu.\n",
            reference_urls=["https://aclanthology.org/P02-1040", "https://aclanthology.org/W18-6319"],
        )


class Novelty(_TextMetric):
    """`hf_summ.evaluation.novelty` as a metric of `evaluate`: `Novelty().compute(predictions=…, sources=…)`.

    Settings and errors are as for `Rouge`.
    """

    measure = staticmethod(novelty)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="How abstractive summaries are: novel and repeated n-grams, copying, compression.",
            citation=_NOVELTY,
            features=_SOURCES,
            inputs_description=f"{_WITH_SOURCES}    language, average, count, …: see hf_summ.evaluation.novelty.\n",
            reference_urls=["https://aclanthology.org/N18-1065"],
        )


class Support(_TextMetric):
    """`hf_summ.evaluation.support` as a metric of `evaluate`: `Support().compute(predictions=…, sources=…)`.

    Settings and errors are as for `Rouge`.
    """

    measure = staticmethod(support)

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Whether the content words of summaries occur in their sources, and occur there together.",
            citation="",
            features=_SOURCES,
            inputs_description=f"{_WITH_SOURCES}    language: see hf_summ.evaluation.support.\n",
        )


_ROUGE = """\
@inproceedings{lin-2004-rouge,
    title = "{ROUGE}: A Package for Automatic Evaluation of Summaries",
    author = "Lin, Chin-Yew",
    booktitle = "Text Summarization Branches Out",
    year = "2004",
    url = "https://aclanthology.org/W04-1013",
}
"""
_BLEU = """\
@inproceedings{papineni-etal-2002-bleu,
    title = "{B}leu: a Method for Automatic Evaluation of Machine Translation",
    author = "Papineni, Kishore and Roukos, Salim and Ward, Todd and Zhu, Wei-Jing",
    booktitle = "Proceedings of the 40th Annual Meeting of the Association for Computational Linguistics",
    year = "2002",
    url = "https://aclanthology.org/P02-1040",
}
@inproceedings{post-2018-call,
    title = "A Call for Clarity in Reporting {BLEU} Scores",
    author = "Post, Matt",
    booktitle = "Proceedings of the Third Conference on Machine Translation: Research Papers",
    year = "2018",
    url = "https://aclanthology.org/W18-6319",
}
"""
_NOVELTY = """\
@inproceedings{grusky-etal-2018-newsroom,
    title = "{N}ewsroom: A Dataset of 1.3 Million Summaries with Diverse Extractive Strategies",
    author = "Grusky, Max and Naaman, Mor and Artzi, Yoav",
    booktitle = "Proceedings of the 2018 Conference of the North {A}merican Chapter of the Association for
        Computational Linguistics: Human Language Technologies",
    year = "2018",
    url = "https://aclanthology.org/N18-1065",
}
"""

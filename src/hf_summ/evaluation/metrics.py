"""The measures as metrics of the library `evaluate`, which only this module imports."""

from dataclasses import fields, replace
from typing import Any

import evaluate
from datasets import Features, Sequence, Value

from hf_summ.common.messages import check_choice
from hf_summ.evaluation.measures import MEASURES, Measure, Settings
from hf_summ.evaluation.significance import rounded
from hf_summ.models.checks import check_list

_TEXT = Value("string")
_FEATURES = {
    # Rows may have different numbers of references, but `evaluate` takes the type of the first row for all rows.
    "references": Features({"predictions": _TEXT, "references": Sequence(_TEXT)}),
    "sources": Features({"predictions": _TEXT, "sources": _TEXT}),
}
_INPUTS = {"references": "one text per row, or a list of several", "sources": "one document per row"}


class Metric(evaluate.Metric):
    """A measure as a metric of `evaluate`. `metric` makes one of each measure.

    Args:
        settings: those of the measure.
        metric_settings: those of `evaluate.Metric`.
    """

    measure: Measure

    def __init__(self, settings: Settings, **metric_settings):
        self.settings = settings
        super().__init__(**metric_settings)

    def compute(self, *, predictions=None, references=None, **kwargs) -> dict[str, float] | None:
        """The scores of the texts given here or added before; None in all processes but the first."""
        if "sources" not in self._feature_names():
            # Another metric of a combination takes the sources.
            kwargs.pop("sources", None)
        return evaluate.Metric.compute(self, predictions=predictions, references=references, **kwargs)

    def add_batch(self, *, predictions=None, references=None, **kwargs) -> None:
        """Add rows, as `compute` does with the texts given to it."""
        columns = {"predictions": predictions, "references": references} | kwargs
        for name, texts in columns.items():
            # `evaluate` would read a single text as a list of its characters.
            if texts is not None:
                check_list(name, texts)
        if references is not None:
            references = [_listed(reference) for reference in references]
        super().add_batch(predictions=predictions, references=references, **kwargs)

    def add(self, *, prediction=None, reference=None, **kwargs) -> None:
        """Add a row."""
        super().add(prediction=prediction, reference=_listed(reference), **kwargs)

    def _info(self) -> evaluate.MetricInfo:
        reads = self.measure.reads
        addresses = []
        if self.measure.source:
            addresses.append(self.measure.source)
        return evaluate.MetricInfo(
            description=self.measure.note,
            citation=self.measure.source or "",
            features=_FEATURES[reads],
            inputs_description=f"\nArgs:\n    predictions: one text per row.\n    {reads}: {_INPUTS[reads]}.\n",
            reference_urls=addresses,
        )

    def _compute(self, predictions, references=(), sources=(), **options) -> dict[str, float]:
        """The scores of all rows; `evaluate` holds a list of references for each."""
        if self.measure.reads == "sources":
            compared_texts = sources
        elif all(len(row) == 1 for row in references):
            compared_texts = [row[0] for row in references]
        else:
            compared_texts = references
        settings = replace(self.settings, **options)
        return rounded(self.measure.compute(predictions, compared_texts, settings))


def _listed(reference):
    """A row's references as a list: None stays for `evaluate` to report."""
    if reference is None or isinstance(reference, str):
        return [reference]
    return reference


def _class_of(name: str) -> type[Metric]:
    """The class of a measure's metric: `evaluate` names a metric after it, and a pickled one looks for it here."""
    class_name = name.capitalize()
    metric_class = globals().get(class_name)
    if metric_class is None or metric_class.measure is not MEASURES[name]:
        metric_class = type(class_name, (Metric,), {"measure": MEASURES[name], "__module__": __name__})
        globals()[class_name] = metric_class
    return metric_class


# A metric that was pickled in another process finds its class here.
for _name in MEASURES:
    _class_of(_name)


def metric(name: str, model: str = "", rouge_mode: str = "rouge_score", **settings) -> evaluate.Metric:
    """A measure as a metric of `evaluate`: `metric("rouge").compute(predictions=…, references=…)`.

    `evaluate.combine([metric("rouge"), metric("support")])` computes several; those that need sources take `sources`.

    Args:
        name: one of `hf_summ.evaluation.measures.MEASURES`.
        model: a folder or a name on the Hub, for a measure that needs a model.
        rouge_mode: as for `rouge`.
        settings: other fields of `hf_summ.evaluation.measures.Settings`, such as `language`, which `compute` takes too;
            and those of `evaluate.Metric`, such as `experiment_id`, `keep_in_memory` and `cache_dir`.

    Raises:
        ValueError: there is no such measure.
        TypeError: neither has such a setting.
    """
    check_choice("`name`", name, MEASURES)
    options: dict[str, Any] = {"rouge_mode": rouge_mode, "metrics": {name: model}}
    for field in fields(Settings):
        if field.name in settings:
            options[field.name] = settings.pop(field.name)
    return _class_of(name)(Settings(**options), **settings)

"""The measures as metrics of the library `evaluate`, which only this module imports."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import evaluate
from datasets import Features, Sequence, Value

from hf_summ.common.messages import check_choice
from hf_summ.evaluation.measures import MEASURES, Measure, Settings
from hf_summ.evaluation.significance import rounded
from hf_summ.models.checks import check_list

_TEXT = Value("string")
_FEATURES = {
    # rows may have different numbers of references, but `evaluate` takes the type of the first row for all
    "references": Features({"predictions": _TEXT, "references": Sequence(_TEXT)}),
    "sources": Features({"predictions": _TEXT, "sources": _TEXT}),
}
_INPUTS = {"references": "one text per row, or a list of several", "sources": "one document per row"}


class Metric(evaluate.Metric):
    """A measure as a metric of `evaluate`; `metric` makes one of each."""

    measure: Measure

    def __init__(self, options: Mapping[str, Any], **settings: Any):
        self.settings = Settings(**options)
        super().__init__(**settings)

    def compute(self, *, predictions=None, references=None, **kwargs) -> Any:
        """The scores of the texts given here or added before; None in all processes but the first."""
        if "sources" not in self._feature_names():
            # meant for another metric of a combination
            kwargs.pop("sources", None)
        return evaluate.Metric.compute(self, predictions=predictions, references=references, **kwargs)

    def add_batch(self, *, predictions=None, references=None, **kwargs) -> None:
        """Add rows, as `compute` does with the texts given to it."""
        for name, texts in {"predictions": predictions, "references": references, **kwargs}.items():
            # `evaluate` would read a single text as a list of its characters
            if texts is not None:
                check_list(name, texts)
        rows = None if references is None else list(map(_listed, references))
        super().add_batch(predictions=predictions, references=rows, **kwargs)

    def add(self, *, prediction=None, reference=None, **kwargs) -> None:
        """Add a row."""
        super().add(prediction=prediction, reference=_listed(reference), **kwargs)

    def _info(self) -> evaluate.MetricInfo:
        reads = self.measure.reads
        return evaluate.MetricInfo(
            description=self.measure.note,
            citation=self.measure.source or "",
            features=_FEATURES[reads],
            inputs_description=f"\nArgs:\n    predictions: one text per row.\n    {reads}: {_INPUTS[reads]}.\n",
            reference_urls=[self.measure.source] if self.measure.source else [],
        )

    def _compute(self, predictions, references=(), sources=(), **options: Any) -> dict[str, float]:
        rows = references if self.measure.reads == "references" else sources
        if rows is references and all(len(row) == 1 for row in rows):
            rows = [row[0] for row in rows]
        return rounded(self.measure.compute(predictions, rows, replace(self.settings, **options)))


def _listed(reference: Any) -> Any:
    return [reference] if isinstance(reference, str | None) else reference


def _class_of(name: str) -> type[Metric]:
    """The class of a measure's metric: `evaluate` names a metric after it, and a pickled one looks for it here."""
    class_name = name.capitalize()
    metric_class = globals().get(class_name)
    if metric_class is None or metric_class.measure is not MEASURES[name]:
        metric_class = type(class_name, (Metric,), {"measure": MEASURES[name], "__module__": __name__})
        globals()[class_name] = metric_class
    return metric_class


# a metric that was pickled in another process finds its class here
for _name in MEASURES:
    _class_of(_name)


def metric(name: str, model: str = "", rouge_mode: str = "rouge_score", **settings: Any) -> evaluate.Metric:
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
    options = {key: settings.pop(key) for key in settings.keys() & Settings.__dataclass_fields__.keys()}
    return _class_of(name)({"rouge_mode": rouge_mode, "metrics": {name: model}, **options}, **settings)

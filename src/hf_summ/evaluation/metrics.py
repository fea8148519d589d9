"""The measures as metrics of the library `evaluate`, which only this module imports.

A measure is an entry of `MEASURES`, which compares predictions with references or with sources. A metric is an
`evaluate.Metric`, to which rows of texts are added, and which computes scores of all rows.
"""

from dataclasses import fields, replace
from typing import Any

import evaluate
from datasets import Features, Sequence, Value

from hf_summ.common.messages import check_choice
from hf_summ.evaluation.measures import MEASURES, Measure, Settings
from hf_summ.evaluation.significance import rounded
from hf_summ.models.checks import check_list

# The type of a column of texts.
_TEXT = Value("string")
# What a measure reads besides predictions -> the columns of its metric.
_FEATURES = {
    # References are always lists. Otherwise `evaluate` would take the type of the first row, a text or a list, for all.
    "references": Features({"predictions": _TEXT, "references": Sequence(_TEXT)}),
    "sources": Features({"predictions": _TEXT, "sources": _TEXT}),
}
# What a measure reads besides predictions -> how a user gives these texts.
_INPUTS = {"references": "one text per row, or a list of several", "sources": "one document per row"}


class Metric(evaluate.Metric):
    """A measure as a metric of `evaluate`; the function `metric` makes a metric of each measure.

    Args:
        settings: the settings of the measure.
        metric_settings: the arguments of `evaluate.Metric`.

    Attributes:
        measure: the entry of `MEASURES`. Each measure has a subclass of this class.
    """

    measure: Measure

    def __init__(self, settings: Settings, **metric_settings):
        self.settings = settings
        super().__init__(**metric_settings)

    def compute(self, *, predictions=None, references=None, **kwargs) -> dict[str, float] | None:
        """The scores of all rows: the texts that are given here, or else the rows that were added before.

        Args:
            predictions: one text per row.
            references: one text per row, or a list of several.
            kwargs: `sources`, one document per row, which a measure of references ignores. The other keywords are
                fields of `Settings`, whose values replace the metric's settings.

        Returns:
            Score -> value, rounded to 4 digits, NaN where it is undefined. In several processes, all but the first get
            None.

        Raises:
            TypeError: texts are not given as a list, or an option is not a field of `Settings`.
            ValueError: the texts or an option's value are as the measure's function rejects them.
        """
        if "sources" not in self._feature_names():
            # In a combination of metrics, the sources are for another metric.
            kwargs.pop("sources", None)
        return evaluate.Metric.compute(self, predictions=predictions, references=references, **kwargs)

    def add_batch(self, *, predictions=None, references=None, **kwargs) -> None:
        """Add rows of texts, whose scores `compute` gives later.

        Args:
            predictions: one text per row.
            references: one text per row, or a list of several. A measure of sources ignores them.
            kwargs: `sources`, one document per row, for a measure of sources. Unlike `compute`, this method refuses
                them for a measure of references.

        Raises:
            TypeError: texts are not given as a list, or the texts of a column are missing.
            ValueError: the numbers of texts differ, a keyword is not a column of the metric, or a value in the first
                row is not a text. Values in later rows are checked by `compute`.
        """
        columns = {"predictions": predictions, "references": references} | kwargs
        for name, texts in columns.items():
            # `evaluate` would read a single text as a list of its characters.
            if texts is not None:
                check_list(name, texts)
        if references is not None:
            references = [_listed(reference) for reference in references]
        super().add_batch(predictions=predictions, references=references, **kwargs)

    def add(self, *, prediction=None, reference=None, **kwargs) -> None:
        """Add a row, whose scores `compute` gives later.

        Args:
            prediction: a text.
            reference: a text or a list of texts. A measure of sources ignores it.
            kwargs: `sources`, a document, for a measure of sources.

        Raises:
            ValueError: a column of the metric is missing, a keyword is not a column, or a value is not a text.
        """
        super().add(prediction=prediction, reference=_listed(reference), **kwargs)

    def _info(self) -> evaluate.MetricInfo:
        """The description of the metric, which `evaluate` asks for."""
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
        """The scores of all rows, which `evaluate` asks for.

        Args:
            predictions: (N,), one text per row.
            references: (N,), a list of texts per row, for a measure of references.
            sources: (N,), one document per row, for a measure of sources.
            options: fields of `Settings` that replace the metric's settings.

        Returns:
            Score -> value, rounded to 4 digits.
        """
        if self.measure.reads == "sources":
            compared_texts = sources
        elif all(len(row) == 1 for row in references):
            compared_texts = [row[0] for row in references]
        else:
            compared_texts = references
        settings = replace(self.settings, **options)
        return rounded(self.measure.compute(predictions, compared_texts, settings))


def _listed(reference):
    """A row's references as a list: a list unchanged, and a single text in a list.

    A missing reference, None, becomes `[None]`, because `evaluate` would accept None in place of a list. `evaluate`
    refuses `[None]` in the first row. It does not check later rows, in which the measure refuses `[None]`.
    """
    if reference is None or isinstance(reference, str):
        return [reference]
    return reference


def _class_of(name: str) -> type[Metric]:
    """The subclass of `Metric` for a measure, such as `Rouge` for "rouge".

    `evaluate` takes the name of a metric from the name of its class. When a metric is unpickled, Python looks for the
    metric's class in this module, so the class is stored among the names of the module.
    """
    class_name = name.capitalize()
    metric_class = globals().get(class_name)
    if metric_class is None or metric_class.measure is not MEASURES[name]:
        metric_class = type(class_name, (Metric,), {"measure": MEASURES[name], "__module__": __name__})
        globals()[class_name] = metric_class
    return metric_class


# A metric may be unpickled in a process that has not called `metric` yet, so all classes are made now.
for _name in MEASURES:
    _class_of(_name)


def metric(name: str, model: str = "", rouge_mode: str = "rouge_score", **settings) -> evaluate.Metric:
    """A measure as a metric of `evaluate`: `metric("rouge").compute(predictions=…, references=…)`.

    `evaluate.combine([metric("rouge"), metric("support")])` computes several measures. If a measure reads sources,
    `compute` gets the sources as its argument `sources`.

    Args:
        name: one of `hf_summ.evaluation.measures.MEASURES`.
        model: a folder or a name on the Hub, for a measure that needs a model.
        rouge_mode: "rouge155" or "rouge_score"; see `RougeSettings`.
        settings: two kinds of keywords. The first are other fields of `hf_summ.evaluation.measures.Settings`, such as
            `language`; `compute` takes these fields too. The second are arguments of `evaluate.Metric`, such as
            `experiment_id`, `keep_in_memory` and `cache_dir`. `evaluate.Metric` ignores any other keyword.

    Raises:
        ValueError: there is no such measure, or a setting has an impossible value.
    """
    check_choice("`name`", name, MEASURES)
    # `Settings.metrics` maps each measure to the model that the measure needs.
    measure_settings: dict[str, Any] = {"rouge_mode": rouge_mode, "metrics": {name: model}}
    for field in fields(Settings):
        if field.name in settings:
            measure_settings[field.name] = settings.pop(field.name)
    # What is left in `settings` is for `evaluate.Metric`.
    metric_class = _class_of(name)
    return metric_class(Settings(**measure_settings), **settings)

"""The model card of a run, without paths of the local machine."""

import json
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path

import datasets
import torch
import yaml
from huggingface_hub import ModelCard, ModelCardData
from transformers import PreTrainedModel, Trainer

from hf_summ.checkpoints.adapters import base_model, is_adapted
from hf_summ.checkpoints.decoding import extracts
from hf_summ.checkpoints.pretrained_parts import pretrained_names
from hf_summ.common.files import bundled_folder
from hf_summ.data.corpora import Corpus
from hf_summ.models.text_documents import readable
from hf_summ.pretrained import model_folder
from hf_summ.runtimes.any_model import prefix_of
from hf_summ.training.arguments import RunArguments, flags_of
from hf_summ.training.folder.resuming import library_versions
from hf_summ.training.results.card_results import Results
from hf_summ.training.results.privacy import public
from hf_summ.training.results.reports import Scorer

# a type that the Hub accepts for data sets outside the Hub
_NO_HUB_DATASET = "unknown"


def make_card(
    trainer: Trainer,
    arguments: RunArguments,
    splits: Mapping[str, Sized],
    source_length: int,
    metrics: Mapping[str, float],
    scorer: Scorer | None,
) -> str:
    """The card of a finished run, the content of README.md.

    Args:
        trainer: the trainer, after training.
        arguments: the arguments of the run.
        splits: the documents that the run used, by split.
        source_length: the number of tokens to which documents are truncated.
        metrics: all metrics of the run by name.
        scorer: the scorer of the summaries, or None if there were none.
    """
    corpus, model = arguments.corpus, trainer.model
    documents = {}
    for split, rows in splits.items():
        # a stream has no length
        if isinstance(rows, datasets.Dataset):
            documents[split] = len(rows)
    results = []
    if scorer is not None:
        results = _results(arguments, documents, metrics, scorer)
    # several splits may have the same notes
    notes: list[str] = []
    for result in results:
        for note in result.notes():
            if note not in notes:
                notes.append(note)
    model_id = _model_id(trainer, arguments)
    name = Path(model_id).name
    if corpus.dataset_name:
        corpus_name = _link(corpus.dataset_name, "datasets/")
    else:
        corpus_name = f"`{_data_name(corpus, 'train')}`"
    # the extras of the package that the model needs
    extras = []
    if is_adapted(model):
        extras.append("lora")
    if getattr(model.config, "tags", "none") != "none":
        extras.append("spacy")
    architecture = type(base_model(model))
    prefix = prefix_of(model.config)
    card = ModelCard.from_template(
        _metadata(arguments, model, name, results),
        template_path=str(bundled_folder("model_cards") / "template.md"),
        name=name,
        corpus=corpus_name,
        starts=[_link(start) for start in _starts(arguments, model)],
        model=model,
        class_name=architecture.__name__,
        has_own_code=not architecture.__module__.startswith("transformers."),
        source_length=source_length,
        extras=extras,
        is_adapter=is_adapted(model),
        model_id=_literal(model_id),
        prefix=_literal(prefix) if prefix else None,
        is_extracted=extracts(vars(arguments.data)),
        results=results,
        notes=notes,
        facts=_facts(trainer, documents),
        settings=_settings(arguments),
        versions=library_versions(),
    )
    return readable(f"{str(card).rstrip()}\n")


def _literal(text: str) -> str:
    """The text as a literal of Python."""
    # a JSON string is such a literal
    return json.dumps(text, ensure_ascii=False)


def _model_id(trainer: Trainer, arguments: RunArguments) -> str:
    """The name of the model for other users: on the Hub, or the last part of the output folder's path."""
    training = arguments.training
    if training.push_to_hub and trainer.hub_model_id:
        return trainer.hub_model_id
    return Path(training.output_dir).resolve().name


def _metadata(arguments: RunArguments, model: PreTrainedModel, name: str, results: Sequence[Results]) -> ModelCardData:
    """The metadata of the card, which the Hub reads.

    Args:
        name: the model's name.
        results: the scores of the splits. Only splits that were scored as a whole are listed.
    """
    corpus, data = arguments.corpus, arguments.data
    hub_dataset = None
    if corpus.dataset_name and _is_on_hub(corpus.dataset_name):
        hub_dataset = corpus.dataset_name
    entries = []
    for result in results:
        if result.is_whole:
            data_name = hub_dataset or _data_name(corpus, result.split)
            data_type = hub_dataset or _NO_HUB_DATASET
            entries.extend(result.as_model_index(data_type, data_name, corpus.dataset_config_name))
    metrics: list[str] = []
    for entry in entries:
        if entry.metric_type not in metrics:
            metrics.append(entry.metric_type)
    base_models = []
    for start in _starts(arguments, model):
        if _is_on_hub(start):
            base_models.append(start)
    # the card omits keys whose value is None
    return ModelCardData(
        # the default language only sets the rules by which texts are split; the texts may be in another language
        language=data.language if data.language_is_given else None,
        license=arguments.training.license,
        library_name="peft" if is_adapted(model) else "transformers",
        # transformers 5 has no such pipeline, but the Hub's search and InferenceClient use the tag
        pipeline_tag="summarization",
        tags=["hf_summ", model.config.model_type],
        base_model=base_models or None,
        base_model_relation="adapter" if is_adapted(model) else None,
        datasets=[hub_dataset] if hub_dataset else None,
        metrics=metrics or None,
        eval_results=entries or None,
        # the name belongs to the results; without results, it would become a separate key
        model_name=name if entries else None,
    )


def _facts(trainer: Trainer, documents: Mapping[str, int]) -> dict[str, str]:
    """What the settings do not say of a run, by title: its documents and updates, the weights kept, and the devices.

    Args:
        documents: the number of documents of each split.
    """
    args, state, accelerator = trainer.args, trainer.state, trainer.accelerator
    facts = {}
    for split, count in documents.items():
        facts[f"{split} documents"] = f"{count:,}"
    facts["updates"] = f"{state.global_step:,} ({state.epoch or 0:.2f} epochs)"
    if args.load_best_model_at_end and state.best_model_checkpoint is not None:
        update = int(Path(state.best_model_checkpoint).name.removeprefix("checkpoint-"))
        facts["weights"] = f"those after update {update:,}"
        # the best evaluation may be between two checkpoints
        if update == state.best_global_step:
            facts["weights"] += f", the best by {args.metric_for_best_model} ({state.best_metric:.4g})"
    device_name = accelerator.device.type
    if device_name == "cuda":
        device_name = torch.cuda.get_device_name(accelerator.device)
    facts["devices"] = f"{accelerator.num_processes} × {device_name}"
    facts["precision"] = str(trainer.model.dtype).removeprefix("torch.")
    if accelerator.mixed_precision != "no":
        facts["precision"] += f", with {accelerator.mixed_precision} autocast"
    return facts


def _settings(arguments: RunArguments) -> str:
    """The settings that the user gave, as YAML for the recipe, without secrets and paths of this machine."""
    # flags with the effect "single" concern one run only
    hidden = flags_of("secret", "single") | {"output_dir"}
    given = {}
    for name, value in sorted(arguments.given.items()):
        if name not in hidden:
            given[name] = public(value)
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120).rstrip()


def _is_on_hub(name: str) -> bool:
    """Whether the name of a data set or model is a repository on the Hub rather than a folder."""
    return not Path(name).exists()


def _link(name: str, kind: str = "") -> str:
    """A link to a repository on the Hub, or the last part of the path of a folder.

    Args:
        kind: the part of the address before the name; `datasets/` for a data set.
    """
    if _is_on_hub(name):
        return f"[{name}](https://huggingface.co/{kind}{name})"
    return f"`{Path(name).name}`"


def _starts(arguments: RunArguments, model: PreTrainedModel) -> list[str]:
    """The names or folders of the checkpoints that initialized the model or parts of it."""
    if is_adapted(model):
        return [config.base_model_name_or_path for config in model.peft_config.values()]
    start = arguments.model.model_name_or_path
    if start is None:
        return pretrained_names(model.config)
    return [model_folder(start)]


def _data_name(corpus: Corpus, split: str) -> str:
    """The last parts of the paths of a split's files, or of the data set's folder."""
    names = (corpus.dataset_name or corpus.files[split]).split(",")
    return ", ".join(Path(name).name for name in names)


def _results(
    arguments: RunArguments, documents: Mapping[str, int], metrics: Mapping[str, float], scorer: Scorer
) -> list[Results]:
    """The scores of the splits on which the finished model was evaluated.

    Args:
        documents: the number of documents of each split on which a model can be evaluated; it has no streams.
        metrics: all metrics of the run by name. The names begin with `predict_` for the test split, and with `eval_`
            for the validation split.
    """
    columns: list[str] = []
    for names in scorer.columns:
        columns.extend(names)
    prefixes = {"test": "predict_", "validation": "eval_"}
    limits = {"test": arguments.data.max_predict_samples, "validation": arguments.data.max_eval_samples}
    # LEAD is scored on the test split only
    lead_sentences = {"test": arguments.training.lead_sentences, "validation": None}
    results = []
    for split, prefix in prefixes.items():
        scores = {}
        for name, value in metrics.items():
            if name.startswith(prefix):
                scores[name.removeprefix(prefix)] = value
        if not scores:
            continue
        count = documents[split]
        limit = limits[split]
        result = Results(
            split=split,
            documents=count,
            scores=scores,
            columns=columns,
            settings=scorer.settings,
            lead_sentences=lead_sentences[split],
            # with as many documents as the limit, the split probably has more
            is_whole=limit is None or count < limit,
        )
        results.append(result)
    return results

"""The model card of a run, without paths of the local machine."""

import importlib.metadata
import json
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path

import datasets
import torch
import yaml
from huggingface_hub import ModelCard, ModelCardData
from transformers import PreTrainedModel, Trainer

import hf_summ
from hf_summ.checkpoints.adapters import base_model, is_adapted
from hf_summ.checkpoints.decoding import extracts
from hf_summ.checkpoints.pretrained_parts import pretrained_names
from hf_summ.common.files import bundled_folder
from hf_summ.data.corpora import Corpus
from hf_summ.models.text_documents import readable
from hf_summ.pretrained import model_folder
from hf_summ.training.arguments import RunArguments, flags_of
from hf_summ.training.folder.resuming import LIBRARIES
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
        splits: the documents that the run used.
        source_length: number of tokens to which documents are truncated.
        metrics: all metrics of the run.
        scorer: the scorer of the summaries, or None.
    """
    corpus, model, training = arguments.corpus, trainer.model, arguments.training
    # a stream has no length
    documents = {split: len(rows) for split, rows in splits.items() if isinstance(rows, datasets.Dataset)}
    results = [] if scorer is None else _results(arguments, documents, metrics, scorer)
    # only the last part of a local path, which is all that other users see
    model_id = Path(training.output_dir).resolve().name
    if training.push_to_hub:
        model_id = trainer.hub_model_id or model_id
    name = Path(model_id).name
    corpus_name = _link(corpus.dataset_name, "datasets/") if corpus.dataset_name else f"`{_data_name(corpus, 'train')}`"
    needed = {"lora": is_adapted(model), "spacy": getattr(model.config, "tags", "none") != "none"}
    notes: list[str] = []
    for result in results:
        notes.extend(result.notes())
    architecture = type(base_model(model))
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
        extras=[extra for extra, is_needed in needed.items() if is_needed],
        is_adapter=is_adapted(model),
        # a JSON string is a literal of Python
        model_id=json.dumps(model_id, ensure_ascii=False),
        is_extracted=extracts(vars(arguments.data)),
        results=results,
        notes=list(dict.fromkeys(notes)),
        facts=_facts(trainer, documents),
        settings=_settings(arguments),
        versions={"hf_summ": hf_summ.__version__} | {name: importlib.metadata.version(name) for name in LIBRARIES},
    )
    return readable(f"{str(card).rstrip()}\n")


def _metadata(arguments: RunArguments, model: PreTrainedModel, name: str, results: Sequence[Results]) -> ModelCardData:
    corpus, data = arguments.corpus, arguments.data
    on_hub = corpus.dataset_name if corpus.dataset_name and _is_on_hub(corpus.dataset_name) else None
    indexed = []
    for result in results:
        if result.is_whole:
            data_name = on_hub or _data_name(corpus, result.split)
            indexed += result.as_model_index(on_hub or _NO_HUB_DATASET, data_name, corpus.dataset_config_name)
    return ModelCardData(
        # the default language sets rules for splitting, and says nothing about the texts
        language=data.language if data.language_is_given else None,
        license=arguments.training.license,
        library_name="peft" if is_adapted(model) else "transformers",
        # transformers 5 has no such pipeline, but the Hub's search and InferenceClient use the tag
        pipeline_tag="summarization",
        tags=["hf_summ", model.config.model_type],
        base_model=[start for start in _starts(arguments, model) if _is_on_hub(start)] or None,
        base_model_relation="adapter" if is_adapted(model) else None,
        datasets=on_hub and [on_hub],
        metrics=list(dict.fromkeys(entry.metric_type for entry in indexed)) or None,
        eval_results=indexed or None,
        # the name of the index; without an index, it would become a separate key
        model_name=name if indexed else None,
    )


def _facts(trainer: Trainer, documents: Mapping[str, int]) -> dict[str, str]:
    """What the settings do not say of a run: its documents and updates, the weights that it kept, and where it ran."""
    args, state, accelerator = trainer.args, trainer.state, trainer.accelerator
    facts = {f"{split} documents": f"{number:,}" for split, number in documents.items()}
    facts["updates"] = f"{state.global_step:,} ({state.epoch or 0:.2f} epochs)"
    if args.load_best_model_at_end and state.best_global_step:
        best = f"the best by {args.metric_for_best_model} ({state.best_metric:.4g})"
        facts["weights"] = f"those after update {state.best_global_step:,}, {best}"
    device = accelerator.device
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    facts["devices"] = f"{accelerator.num_processes} × {kind}"
    facts["precision"] = str(trainer.model.dtype).removeprefix("torch.")
    if accelerator.mixed_precision != "no":
        facts["precision"] += f", with {accelerator.mixed_precision} autocast"
    return facts


def _settings(arguments: RunArguments) -> str:
    """The settings that the user gave, as a configuration of the recipe."""
    hidden = flags_of("secret", "single") | {"output_dir"}
    given = {name: public(value) for name, value in sorted(arguments.given.items()) if name not in hidden}
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120).rstrip()


def _is_on_hub(name: str) -> bool:
    """Whether the name of a data set or model is a repository on the Hub rather than a folder."""
    return not Path(name).exists()


def _link(name: str, kind: str = "") -> str:
    """A link to a repository on the Hub, or the last part of the name of a folder."""
    return f"[{name}](https://huggingface.co/{kind}{name})" if _is_on_hub(name) else f"`{Path(name).name}`"


def _starts(arguments: RunArguments, model: PreTrainedModel) -> list[str]:
    """The checkpoints that initialized the model or parts of it."""
    base = arguments.model.model_name_or_path
    if is_adapted(model):
        return [config.base_model_name_or_path for config in model.peft_config.values()]
    return pretrained_names(model.config) if base is None else [model_folder(base)]


def _data_name(corpus: Corpus, split: str) -> str:
    """The last part of the name of a split's file, or of the data set's folder."""
    names = (corpus.dataset_name or corpus.files[split]).split(",")
    return ", ".join(Path(name).name for name in names)


def _results(
    arguments: RunArguments, documents: Mapping[str, int], metrics: Mapping[str, float], scorer: Scorer
) -> list[Results]:
    """The scores of the splits that the finished model was evaluated on."""
    columns = [name for names in scorer.columns for name in names]
    limits = {"test": arguments.data.max_predict_samples, "validation": arguments.data.max_eval_samples}
    results = []
    for split, prefix in (("test", "predict_"), ("validation", "eval_")):
        scores = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
        if scores:
            number, limit = documents[split], limits[split]
            lead_sentences = arguments.training.lead_sentences if split == "test" else None
            is_whole = limit is None or number < limit
            results.append(Results(split, number, scores, columns, scorer.settings, lead_sentences, is_whole))
    return results

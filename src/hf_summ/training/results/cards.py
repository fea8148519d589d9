"""The model card of a run, without paths of the local machine."""

import importlib.metadata
import json
import re
from collections.abc import Generator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import torch
from huggingface_hub import ModelCard, ModelCardData
from huggingface_hub.constants import EVAL_RESULTS_FOLDER
from transformers import PreTrainedModel, Trainer
from transformers.modelcard import extract_hyperparameters_from_trainer
from transformers.utils.hub import hf_api

import hf_summ
from hf_summ.checkpoints.adapters import base_model, is_adapted
from hf_summ.checkpoints.decoding import extracts
from hf_summ.checkpoints.pretrained_parts import pretrained_names
from hf_summ.common.files import bundled_folder, write_atomically
from hf_summ.common.messages import one_line
from hf_summ.common.pages import markdown_table
from hf_summ.data.corpora import Corpus
from hf_summ.models.text_documents import readable
from hf_summ.pretrained import model_folder
from hf_summ.training.arguments import DataArguments, RunArguments, SummarizationTrainingArguments
from hf_summ.training.folder.ledger import LOCK, RUN_FILE
from hf_summ.training.folder.resuming import LIBRARIES, command_line
from hf_summ.training.results.card_results import Results
from hf_summ.training.results.reports import Scorer
from hf_summ.training.rows.extraction import SPLITS_OF

# placeholder for a service's address in a card's code
SERVICE = "https://summarizer.example.org"
# a type that the Hub accepts for data sets outside the Hub
_NO_HUB_DATASET = "unknown"
# files with local paths, which are not pushed
PRIVATE = (RUN_FILE, LOCK)
# corpus texts and event files, pushed only with --push_results
RESULTS = ("predictions.jsonl", "generated_predictions.txt", "runs/")
# settings of a corpus with which its rows were selected and read
_READING = ("data_format", "min_score", "density_bin")
_SETTINGS = ("config.json", "processor_config.json", "training_args.json")


@dataclass(frozen=True)
class Card:
    """A model card and its files of scores.

    Args:
        text: the content of README.md.
        eval_results: the files in `.eval_results`, name -> YAML.
    """

    text: str
    eval_results: Mapping[str, str] = field(default_factory=dict)

    def write(self, folder: str | Path) -> None:
        """Write the card to a model's folder."""
        write_atomically(Path(folder) / "README.md", self.text)
        for name, content in self.eval_results.items():
            path = Path(folder) / EVAL_RESULTS_FOLDER / name
            path.parent.mkdir(exist_ok=True)
            write_atomically(path, content)


def make_card(
    trainer: Trainer,
    arguments: RunArguments,
    splits: Mapping[str, Sized],
    source_length: int,
    metrics: Mapping[str, float],
    scorer: Scorer | None,
    command: Sequence[str],
) -> Card:
    """The card of a finished run.

    Args:
        trainer: the trainer, after training.
        arguments: the arguments of the run.
        splits: the documents that the run used.
        source_length: number of tokens to which documents are truncated.
        metrics: all metrics of the run.
        scorer: the scorer of the summaries, or None.
        command: the command line of the arguments; empty if there was none.
    """
    corpus, model, training = arguments.corpus, trainer.model, arguments.training
    # a stream has no length
    documents = {split: len(rows) for split, rows in splits.items() if isinstance(rows, datasets.Dataset)}
    name_on_hub = getattr(trainer, "hub_model_id", None) or training.hub_model_id
    # only the last part of a local path, which is all that other users see
    model_id = name_on_hub if training.push_to_hub and name_on_hub else Path(training.output_dir).resolve().name
    name = one_line(readable(Path(model_id).name))
    shell = command_line([*map(_public, command)], trainer.accelerator.num_processes, " \\\n    ") if command else None
    results = [] if scorer is None else _results(arguments, documents, metrics, scorer)
    architecture = type(base_model(model))
    needed = {"lora": is_adapted(model), "spacy": getattr(model.config, "tags", "none") != "none"}
    card = ModelCard.from_template(
        _metadata(arguments, model, name, results),
        template_path=str(bundled_folder("model_cards") / "template.md"),
        name=as_text(name),
        start=_start(arguments, model),
        corpus=_corpus_name(corpus),
        summary_language=_language(arguments),
        class_name=architecture.__name__,
        model_type=model.config.model_type,
        parameters=f"{model.num_parameters():,}",
        source_length=source_length,
        source_prefix=arguments.data.source_prefix and as_code(arguments.data.source_prefix),
        prefix_column=corpus.prefix_column and as_code(corpus.prefix_column),
        extras=[extra for extra, is_needed in needed.items() if is_needed],
        is_adapter=is_adapted(model),
        has_own_code=not architecture.__module__.startswith("transformers."),
        example=_as_python(_example(corpus)),
        model_id=_as_python(readable(model_id)),
        service=SERVICE,
        is_named=corpus.dataset_name is not None,
        is_on_hub=_hub_dataset(corpus) is not None,
        reading={name: getattr(corpus, name) for name in _READING if getattr(corpus, name) is not None},
        min_coverage=arguments.data.min_coverage,
        extraction=_extraction(arguments.data, documents),
        splits=_splits(arguments, documents),
        results=[result.as_markdown() for result in results],
        notes=list(dict.fromkeys(sentence for result in results for sentence in result.notes())),
        facts=[(name, value) for name, value in training_facts(trainer).items() if value is not None],
        command=shell,
        fence=_ticks(shell or "", 3),
        license_id=training.license,
        versions=[("hf_summ", hf_summ.__version__), *((name, importlib.metadata.version(name)) for name in LIBRARIES)],
    )
    return Card(readable(f"{str(card).rstrip()}\n"), _eval_results(corpus, results))


def as_code(text: str) -> str:
    """A text as inline code of Markdown, for any characters."""
    text, ticks = " ".join(text.splitlines()) or " ", _ticks(text, 1)
    # without spaces, a backtick at an end would join the delimiters
    return f"{ticks}{text}{ticks}" if len(ticks) == 1 else f"{ticks} {text} {ticks}"


def as_text(text: str) -> str:
    """A line as it is shown by Markdown, with a backslash before each of its marks."""
    # an underscore inside a word is not markup
    return re.sub(r"[\\`*\[<&#~]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)


def _as_python(text: str) -> str:
    """A text as a string literal of Python, which a JSON string also is."""
    return json.dumps(text, ensure_ascii=False)


def _ticks(text: str, least: int) -> str:
    """Backticks to delimit code: more than the text has in a row."""
    return "`" * max(least, *(len(run) + 1 for run in re.findall("`+", text) or [""]))


def _public(token: str) -> str:
    """A part of a command line, with absolute paths replaced by their last names."""
    flag, equals, value = token.partition("=") if token.startswith("--") else ("", "", token)
    return f"{flag}{equals}{','.join(map(_hidden, value.split(',')))}"


def _metadata(arguments: RunArguments, model: PreTrainedModel, name: str, results: Sequence[Results]) -> ModelCardData:
    corpus, hub_dataset = arguments.corpus, _hub_dataset(arguments.corpus)
    # the Hub's YAML keeps neither lone surrogates nor all ends of lines
    config = corpus.dataset_config_name and one_line(readable(corpus.dataset_config_name))
    indexed = [
        entry
        for result in results
        if result.is_whole
        for entry in result.as_model_index(
            hub_dataset or _NO_HUB_DATASET, one_line(readable(_data_name(corpus, result.split))), config
        )
    ]
    return ModelCardData(
        language=_language(arguments),
        license=arguments.training.license,
        library_name="peft" if is_adapted(model) else "transformers",
        # transformers 5 has no such pipeline, but the Hub's search and InferenceClient use the tag
        pipeline_tag="summarization",
        tags=["hf_summ", model.config.model_type],
        base_model=[start for start in _starts(arguments, model) if _is_on_hub(start)] or None,
        base_model_relation="adapter" if is_adapted(model) else None,
        datasets=None if hub_dataset is None else [hub_dataset],
        metrics=list(dict.fromkeys(entry.metric_type for entry in indexed)) or None,
        eval_results=indexed or None,
        # the name of the index; without an index, it would become a separate key
        model_name=name if indexed else None,
    )


def _eval_results(corpus: Corpus, results: Sequence[Results]) -> dict[str, str]:
    """The scores that are comparable with others on the same data set: those over all of its test documents."""
    hub_dataset = _hub_dataset(corpus)
    comparable = [result for result in results if result.split == "test" and result.is_whole]
    if hub_dataset is None or corpus.option() is not None or not comparable:
        return {}
    return comparable[0].as_files(hub_dataset, corpus.dataset_config_name)


def training_facts(trainer: Trainer) -> dict[str, object]:
    """Transformers' hyperparameters of the training run, corrected for this recipe; None means unknown."""
    args: SummarizationTrainingArguments = trainer.args
    state = trainer.state
    facts = {"updates": f"{state.global_step:,} ({state.epoch or 0:.2f} epochs)"}
    if args.load_best_model_at_end and state.best_global_step:
        facts["weights"] = (
            f"those after update {state.best_global_step:,}, the best by {args.metric_for_best_model} "
            f"({state.best_metric:.4g})"
        )
    facts |= {"devices": _devices(trainer), "precision": _precision(trainer)}
    for name, value in extract_hyperparameters_from_trainer(trainer).items():
        if name not in ("distributed_type", "num_devices", "mixed_precision_training"):
            facts[name] = one_line(f"{value:g}" if isinstance(value, float) else value)
    return facts | _corrections(args, getattr(trainer.model.config, "label_smoothing", 0.0))


def _corrections(args: SummarizationTrainingArguments, label_smoothing: float) -> dict[str, object]:
    """Facts on optimizer, schedule, batches and loss that transformers omits."""
    name = {"adam": "Adam", "adamw": "AdamW", "adadelta": "Adadelta"}.get(args.optimizer or "", args.optim.value)
    settings = [f"betas {args.adam_beta1} and {args.adam_beta2}"] if "adam" in name.lower() else []
    settings += [f"rho {args.adadelta_rho}"] if name == "Adadelta" else []
    settings += [f"epsilon {args.adam_epsilon}"] if settings else []
    theirs = args.optim_args if args.optimizer is None else None
    facts: dict[str, object] = {"optimizer": ", ".join(filter(None, (name, *settings, theirs)))}
    if args.weight_decay:
        use = {"adam": ", added to the gradient", "adadelta": ", added to the gradient", "adamw": ", decoupled"}
        facts["weight_decay"] = f"{args.weight_decay}{use.get(args.optimizer or args.optim.split('_')[0], '')}"
    if args.learning_rates:
        facts["learning_rates"] = ", ".join(args.learning_rates)
    if args.schedule == "noam":
        facts |= {"lr_scheduler_type": f"noam with scale {args.noam_scale}", "learning_rate": None}
    elif args.schedule == "cosine":
        period = "one period" if args.schedule_period is None else f"a restart every {args.schedule_period} updates"
        facts["lr_scheduler_type"] = f"cosine with {period}"
    for split, budget in (("train", args.train_tokens_per_batch), ("eval", args.eval_tokens_per_batch)):
        if budget is not None:
            facts |= {f"{split}_batch_size": f"{budget} tokens per device", f"total_{split}_batch_size": None}
    if label_smoothing:
        facts["label_smoothing_factor"] = label_smoothing
    return facts


def _devices(trainer: Trainer) -> str:
    device, number = trainer.accelerator.device, trainer.accelerator.num_processes
    if device.type == "cpu":
        devices = f"{number} CPU process{'' if number == 1 else 'es'}"
    else:
        devices = f"{number} × {torch.cuda.get_device_name(device) if device.type == 'cuda' else device.type}"
    return f"{devices}, weights sharded by FSDP2" if trainer.is_fsdp_enabled else devices


def _precision(trainer: Trainer) -> str:
    weights = str(trainer.model.dtype).removeprefix("torch.")
    half = {"fp16": "float16", "bf16": "bfloat16"}.get(trainer.accelerator.mixed_precision)
    return weights if half is None else f"{half} autocast, weights in {weights}"


def _is_on_hub(name: str) -> bool:
    """Whether the name of a data set or model is a repository on the Hub rather than a folder."""
    return not Path(name).exists()


def _hub_dataset(corpus: Corpus) -> str | None:
    return corpus.dataset_name if corpus.dataset_name is not None and _is_on_hub(corpus.dataset_name) else None


def _starts(arguments: RunArguments, model: PreTrainedModel) -> list[str]:
    """The checkpoints that initialized the model or parts of it."""
    base = arguments.model.model_name_or_path
    if is_adapted(model):
        return [config.base_model_name_or_path for config in model.peft_config.values()]
    return pretrained_names(model.config) if base is None else [model_folder(base)]


def _start(arguments: RunArguments, model: PreTrainedModel) -> str:
    links = [
        f"[{name}](https://huggingface.co/{name})" if _is_on_hub(name) else as_code(Path(name).name)
        for name in _starts(arguments, model)
    ]
    if not links:
        return "was trained from scratch"
    if arguments.model.model_name_or_path is None:
        if getattr(model.config, "start_name", None) is not None:
            return f"was trained, starting from the weights of {links[0]},"
        return f"was trained with {' and '.join(links)} as a part of it"
    return f"is {'an adapter' if is_adapted(model) else 'a fine-tuned version'} of {links[0]}, trained"


def _language(arguments: RunArguments) -> str | None:
    """The language that the user named: the default sets rules for splitting, which say nothing about the texts."""
    return arguments.data.language if arguments.data.language_is_given else None


def _example(corpus: Corpus) -> str:
    """What to put in the place of a document: a document of the corpus itself may be private."""
    column = "" if corpus.text_column is None else f"the column '{corpus.text_column}' of "
    return one_line(readable(f"Put here a document like those in {column}{_data_name(corpus, 'train')}"))


def _data_name(corpus: Corpus, split: str) -> str:
    """The data set's name on the Hub, or the last part of the name of its folder or file."""
    if corpus.dataset_name is None:
        return _file_name(corpus.files[split])
    return _hub_dataset(corpus) or Path(corpus.dataset_name).name


def _file_name(name: str) -> str:
    return ", ".join(Path(file).name for file in name.split(","))


def _corpus_name(corpus: Corpus) -> str:
    name = corpus.dataset_name
    if name is None:
        return as_code(_file_name(corpus.files["train"]))
    if _hub_dataset(corpus) is None:
        return f"the data set {as_code(Path(name).name)}"
    config = f", configuration {as_code(corpus.dataset_config_name)}" if corpus.dataset_config_name else ""
    return f"the data set [{name}](https://huggingface.co/datasets/{name}){config}"


def _splits(arguments: RunArguments, documents: Mapping[str, int]) -> str:
    rows = []
    for split, number in documents.items():
        amount = f"the first {number:,}" if _is_limited(arguments.data, split, number) else f"{number:,}"
        file = arguments.corpus.files.get(split)
        rows.append([split, *([] if file is None else [as_code(_file_name(file))]), amount])
    columns = ["Split", *([] if arguments.corpus.dataset_name else ["File"]), "Documents"]
    return markdown_table(columns, rows, left=len(columns) - 1)


def _extraction(data: DataArguments, documents: Mapping[str, int]) -> dict[str, Any] | None:
    """The extractive stage that shortened documents, for the template; None without it."""
    if not extracts(vars(data)):
        return None
    model = data.next_sentence_model
    return {
        "splits": [split for split in documents if split in SPLITS_OF[data.extract_splits or "both"]],
        "share": data.extract_share,
        "tokens": data.extract_tokens,
        "idf": data.extract_idf and as_code(Path(data.extract_idf).name),
        "model": model and as_code(model if _is_on_hub(model) else Path(model).name),
    }


def _is_limited(data: DataArguments, split: str, number: int) -> bool:
    """Whether the split may have been limited to its first documents: their number is at least the limit."""
    limits = {"train": data.max_train_samples, "validation": data.max_eval_samples, "test": data.max_predict_samples}
    limit = limits[split]
    return limit is not None and number >= limit


def _results(
    arguments: RunArguments, documents: Mapping[str, int], metrics: Mapping[str, float], scorer: Scorer
) -> list[Results]:
    """The scores of the splits that the finished model was evaluated on."""
    columns, results = [name for names in scorer.columns for name in names], []
    for split, prefix in (("test", "predict_"), ("validation", "eval_")):
        scores = {name.removeprefix(prefix): value for name, value in metrics.items() if name.startswith(prefix)}
        if scores:
            number, lead = documents[split], arguments.training.lead_sentences if split == "test" else None
            is_whole = not _is_limited(arguments.data, split, number)
            results.append(Results(split, number, scores, columns, scorer.settings, lead, is_whole))
    return results


@contextmanager
def uploads_without(private: Sequence[str]) -> Generator[None]:
    """Within, transformers uploads no files of these patterns, also to a Hub that does not follow .gitignore."""
    api = hf_api()
    upload = api.upload_folder

    def upload_public(*args, ignore_patterns: Sequence[str] = (), **settings):
        return upload(*args, ignore_patterns=[*ignore_patterns, *private], **settings)

    api.upload_folder = upload_public
    try:
        yield
    finally:
        del api.upload_folder


def hide_paths(folder: Path) -> None:
    """Replace absolute paths in a saved model's settings by their last names."""
    for name in _SETTINGS:
        path = folder / name
        content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if (hidden := _hidden(content)) != content:
            write_atomically(path, json.dumps(hidden, indent=2, ensure_ascii=False) + "\n")


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _hidden(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_hidden(member) for member in value]
    if not isinstance(value, str):
        return value
    # a measure's model follows its name
    name, equals, path = ("", "", value) if Path(value).is_absolute() else value.partition("=")
    return f"{name}{equals}{Path(path).name}" if Path(path).is_absolute() and len(path) > 1 else value

"""What leaves this machine when a run is published: neither its texts nor the names of its folders."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers.trainer import TRAINING_ARGS_NAME
from transformers.utils.hub import hf_api

from hf_summ.common.files import write_atomically
from hf_summ.training.folder.ledger import LOCK, RUN_FILE

# files that are not pushed: with paths of this machine, with texts of the corpus, or for this machine alone
PRIVATE = (TRAINING_ARGS_NAME, RUN_FILE, LOCK, "predictions.jsonl", "generated_predictions.txt", "runs/")
_SETTINGS = ("config.json", "processor_config.json")


@contextmanager
def uploads_without(private: Sequence[str]) -> Generator[None]:
    """Within, transformers uploads no files of these patterns; it has no setting for that."""
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
        if not path.exists():
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        hidden = public(content)
        if hidden != content:
            write_atomically(path, json.dumps(hidden, indent=2, ensure_ascii=False) + "\n")


def public(value: Any) -> Any:
    """A setting in which only the last name of each absolute path remains, also in a list of files with commas."""
    if isinstance(value, dict):
        return {name: public(member) for name, member in value.items()}
    if isinstance(value, list):
        return [public(member) for member in value]
    if not isinstance(value, str):
        return value
    return ",".join(_last_name(part) for part in value.split(","))


def _last_name(text: str) -> str:
    name, equals, path = "", "", text
    if not Path(text).is_absolute():
        # a measure's model follows its name
        name, equals, path = text.partition("=")
    if path == "/" or not Path(path).is_absolute():
        return text
    return f"{name}{equals}{Path(path).name}"

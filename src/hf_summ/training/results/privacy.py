"""What leaves this machine when a run is published: neither its texts nor the names of its folders."""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from transformers.trainer import TRAINER_STATE_NAME, TRAINING_ARGS_NAME
from transformers.utils.hub import hf_api

from hf_summ.common.files import write_atomically
from hf_summ.training.folder.ledger import LOCK, RUN_FILE

# Patterns of the files that are not uploaded. They contain paths of this machine or texts of the corpus, or serve only
# on this machine.
PRIVATE = (TRAINING_ARGS_NAME, RUN_FILE, LOCK, "predictions.jsonl", "generated_predictions.txt", "runs/")
# files of a run or of a checkpoint in which paths may stand
_SETTINGS = ("config.json", "processor_config.json", TRAINER_STATE_NAME)


@contextmanager
def uploads_without(private: Sequence[str]) -> Generator[None]:
    """In this context, transformers uploads no paths, and no files whose names match one of these patterns.

    transformers has no setting for this. Therefore the method that uploads folders, of the Hub's interface, is replaced
    in the context.
    """
    api = hf_api()
    upload = api.upload_folder

    def upload_public(*, folder_path: str, ignore_patterns: Sequence[str] = (), **settings):
        hide_paths(Path(folder_path))
        return upload(folder_path=folder_path, ignore_patterns=list(ignore_patterns) + list(private), **settings)

    api.upload_folder = upload_public
    try:
        yield
    finally:
        del api.upload_folder


def hide_paths(folder: Path) -> None:
    """Replace paths in the settings and in the trainer's state in a folder by their last parts.

    A relative path in the settings stays, as it could be a name on the Hub.
    """
    for name in _SETTINGS:
        path = folder / name
        if not path.exists():
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        hidden = {key: public(value) for key, value in content.items()}
        best_checkpoint = content.get("best_model_checkpoint")
        if best_checkpoint is not None:
            # the path is relative if the output folder's is
            hidden["best_model_checkpoint"] = Path(best_checkpoint).name
        if hidden != content:
            write_atomically(path, json.dumps(hidden, indent=2, ensure_ascii=False) + "\n")


def public(value: object) -> object:
    """The value of a setting, in which only the last part of each absolute path remains.

    Args:
        value: a value of JSON. A text in it may be a list of files with commas between them.
    """
    if isinstance(value, dict):
        return {name: public(member) for name, member in value.items()}
    if isinstance(value, list):
        return [public(member) for member in value]
    if not isinstance(value, str):
        return value
    parts = [_without_folders(part) for part in value.split(",")]
    return ",".join(parts)


def _without_folders(text: str) -> str:
    """A text without the folders of the absolute path that it is, or that follows `=`, as in `bertscore=/models/bert`.

    Other texts are unchanged.
    """
    if Path(text).is_absolute():
        start, path = "", text
    else:
        name, equals, path = text.partition("=")
        start = name + equals
    if path == "/" or not Path(path).is_absolute():
        return text
    return start + Path(path).name

"""What of an output folder stays at home when its model is pushed to the Hub."""

import json
from pathlib import Path
from typing import Any

from hf_summ.common.files import write_atomically
from hf_summ.training.records import RUN_FILE

# what tells of the machine
PRIVATE = (RUN_FILE, ".run.lock")
# texts of the corpus, and event files, which are pushed if the user asks for it
RESULTS = ("predictions.jsonl", "generated_predictions.txt", "runs/")
_SETTINGS = ("config.json", "processor_config.json", "training_args.json")


def hide_paths(folder: Path) -> None:
    """Replace the absolute paths in a saved model's settings by the names at their ends."""
    for name in _SETTINGS:
        path = folder / name
        if not path.exists():
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        hidden = _hidden(content)
        if hidden != content:
            write_atomically(path, json.dumps(hidden, indent=2, ensure_ascii=False) + "\n")


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _hidden(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_hidden(member) for member in value]
    return Path(value).name if isinstance(value, str) and Path(value).is_absolute() and len(value) > 1 else value

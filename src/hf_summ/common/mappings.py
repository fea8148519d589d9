"""JSON and YAML as users write them: what Python's readers would take in silence, or die of, is an error."""

import json
from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from typing import Any

import yaml
from yaml.constructor import ConstructorError


def parse_json(text: str, strict: bool = True) -> Any:
    """The value of a JSON text.

    Args:
        strict: as for `json.loads`.

    Raises:
        JSONDecodeError: it is not JSON.
        ValueError: an object has a key twice, a number has too many digits, or values are nested too deeply.
    """
    with _limits_told():
        return json.loads(text, strict=strict, object_pairs_hook=_without_repeats)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, _ in pairs if counts[name] > 1)
        raise ValueError(f"the key '{repeated}' stands twice in one object")
    return found


def parse_yaml(text: str) -> Any:
    """The value of a YAML text.

    Raises:
        YAMLError: it is not YAML, or a mapping has a key twice.
        ValueError: values are nested too deeply, or a number has too many digits.
    """
    with _limits_told():
        return yaml.load(text, _Loader)


@contextmanager
def _limits_told() -> Generator[None]:
    """Within, what exceeds Python's limits is an error that says so."""
    try:
        yield
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError("a number has more digits than can be read") from None
        raise


class _Loader(yaml.SafeLoader):
    """PyYAML's loader of plain values, in which of equal keys the last would win."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            # `<<` merges another mapping, whose keys may be overridden
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            # others, such as lists, are refused below
            if isinstance(key, Hashable) and key in seen:
                raise ConstructorError(None, None, f"the key '{key}' stands twice", key_node.start_mark)
            seen.update([key] if isinstance(key, Hashable) else [])
        return super().construct_mapping(node, deep)

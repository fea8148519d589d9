"""Fails the build for a public name that no page documents, and for one whose docstring leaves out a parameter.

A parameter counts as documented if the docstring names it, under `Args:` or in its prose, or if that of another public
name to which it refers in backticks does. The inputs of all transformers models are documented in transformers.
"""

import functools
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import inspect as sphinx_inspect
from sphinx.util import logging
from transformers import BartForConditionalGeneration

# a name in several of these is documented in the first
ROOMS = (
    *("hf_summ", "hf_summ.data", "hf_summ.evaluation", "hf_summ.extractive"),
    *("hf_summ.shortening", "hf_summ.votes", "hf_summ.serving", "hf_summ.training"),
)
# the inputs of any encoder-decoder of transformers
_FORWARD = inspect.signature(BartForConditionalGeneration.forward).parameters

logger = logging.getLogger(__name__)


def undocumented(label: str, thing: Any) -> Iterator[str]:
    """The parameters that docstrings of a public name leave out, one message per docstring; none if not callable."""
    if not inspect.isclass(thing):
        yield from _left_out(label, thing.__doc__, _parameters(thing)) if callable(thing) else ()
        return
    elsewhere = _inherited(thing) | _fields(thing)
    yield from _left_out(label, thing.__doc__, [name for name in _parameters(thing) if name not in elsewhere])
    for name in dir(thing):
        # a method that overrides another is documented by that one's docstring
        method = next(vars(base)[name] for base in reversed(thing.__mro__) if name in vars(base))
        if not name.startswith("_") and inspect.isfunction(method) and _package(method) == _package(thing):
            parameters = [parameter for parameter in _parameters(method) if parameter not in _FORWARD]
            yield from _left_out(f"{label}.{name}", method.__doc__, parameters)


def _left_out(label: str, text: str | None, parameters: Iterable[str]) -> Iterator[str]:
    if not text:
        yield f"{label} has no docstring"
        return
    named = " ".join(
        [text, *(_public()[name].__doc__ or "" for name in re.findall(r"`(\w+)`", text) if name in _public())]
    )
    missing = [name for name in parameters if not re.search(rf"\b{name}\b", named)]
    if missing:
        yield f"{label}: the docstring does not name {', '.join(missing)}"


def _package(thing: Any) -> str:
    return thing.__module__.partition(".")[0]


@functools.cache
def _public() -> dict[str, Any]:
    """Public name -> the object; it is documented in the first module that has it."""
    modules = [importlib.import_module(room) for room in reversed(ROOMS)]
    return {name: getattr(module, name) for module in modules for name in module.__all__}


def _parameters(thing: Any) -> list[str]:
    """The names of parameters that a call can give."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        # a class implemented in C, without parameters of ours
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind not in variadic and parameter.name != "self"]


def _fields(kind: type) -> set[str]:
    """A dataclass's fields with their own help, which tables of flags show."""
    return {name for name, field in getattr(kind, "__dataclass_fields__", {}).items() if "help" in field.metadata}


def _inherited(kind: type) -> set[str]:
    """Parameters inherited from other libraries' classes."""
    foreign = [base for base in kind.__mro__[1:-1] if _package(base) != _package(kind)]
    return {name for base in foreign for name in _parameters(base)}


def _shorten(app: Sphinx, what: str, name: str, thing: Any, *_: Any) -> tuple[str, None] | None:
    """A class's signature without the many parameters inherited from other libraries' classes."""
    if what not in ("class", "exception") or not (inherited := _inherited(thing)):
        return None
    signature = sphinx_inspect.signature(thing)
    own = [parameter for parameter in signature.parameters.values() if parameter.name not in inherited - {"config"}]
    signature = signature.replace(parameters=own, return_annotation=inspect.Signature.empty)
    return sphinx_inspect.stringify_signature(signature, unqualified_typehints=True), None


def _check(app: Sphinx, env: BuildEnvironment) -> None:
    documented = env.domains.python_domain.objects
    seen: set[str] = set()
    for room in ROOMS:
        module = importlib.import_module(room)
        for name in module.__all__:
            if name in seen:
                continue
            seen.add(name)
            label = f"{room}.{name}"
            if label not in documented:
                logger.warning("%s is public, but no page documents it", label)
            for message in undocumented(label, getattr(module, name)):
                logger.warning("%s", message)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", _shorten)
    app.connect("env-check-consistency", _check)
    return {"parallel_read_safe": True}

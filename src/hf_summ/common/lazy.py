"""Names that are imported on first use (PEP 562), optional libraries, and functions that run after an import."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def lazily(package: str, modules: Mapping[str, str]) -> tuple[Callable, Callable]:
    """A package's `__getattr__` and `__dir__`.

    Args:
        modules: name -> the module that defines it, relative to the package.
    """

    def __getattr__(name: str):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name], package), name)
        setattr(sys.modules[package], name, value)
        return value

    def __dir__() -> list[str]:
        present_names = set(vars(sys.modules[package]))
        return sorted(present_names.union(modules))

    return __getattr__, __dir__


def import_extra(module: str, needs: str, extra: str) -> ModuleType:
    """Import a module of an optional library.

    Args:
        needs: the beginning of the error's message, such as "BLEU needs sacrebleu".
        extra: the extra of this package that installs the library.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"{needs}: pip install 'hf-summ[{extra}]'") from error


def after_import(callbacks: Mapping[str, Callable[[ModuleType], None]]) -> None:
    """Call a function with each of some modules: at once if the module is imported already, otherwise after its import.

    Args:
        callbacks: name of a module -> the function.
    """
    sys.meta_path.insert(0, _Finder(callbacks))
    for name in callbacks.keys() & sys.modules.keys():
        # If another thread is importing the module, this waits for it.
        callbacks[name](import_module(name))


class _Finder:
    """Finds modules as Python does, and wraps their loaders to call the functions."""

    def __init__(self, callbacks: Mapping[str, Callable[[ModuleType], None]]):
        self._callbacks = callbacks

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        if name not in self._callbacks:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        loader = spec.loader
        run = loader.exec_module

        def run_and_call(module: ModuleType) -> None:
            # This unwraps the module's loader, as other code may inspect it later.
            del loader.exec_module
            run(module)
            self._callbacks[name](module)

        loader.exec_module = run_and_call
        return spec

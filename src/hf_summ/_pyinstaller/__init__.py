"""PyInstaller's hook for this package, which the entry point in pyproject.toml names."""

from pathlib import Path


def hook_dirs() -> list[str]:
    """The folder of the hook."""
    return [str(Path(__file__).parent)]

"""The Hugging Face Hub."""

from pathlib import Path

# each checkpoint, adapter or processor has one of these
_FILES = ("config.json", "adapter_config.json", "tokenizer_config.json")


def check_within_reach(name: str, revision: str | None = None, cache_dir: str | None = None) -> None:
    """Raise an OSError for a checkpoint that is not on this machine, if the Hub cannot be reached.

    transformers would first retry each of its files for 23 seconds.

    Args:
        name: a folder, or a name on the Hub.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    try:
        if Path(name).exists() or any(try_to_load_from_cache(name, file, cache_dir, revision) for file in _FILES):
            return
        get_hf_file_metadata(hf_hub_url(name, _FILES[0]))
    except (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled):
        # transformers reports these without retrying
        return
    except Exception as error:
        # the Hub's HTTP clients raise errors of their own types
        raise OSError(f"{name} is not on this machine, and the Hub cannot be reached ({error})") from error

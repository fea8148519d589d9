"""The architectures in transformers and PEFT, whichever is imported first, in threads and in other processes."""

import subprocess
import sys

import pytest

from hf_summ import GdlfConfig, registration
from hf_summ.common.lazy import lazily

IMPORTS = """
import pickle
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoProcessor, BartConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, MODEL_MAPPING
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.pipelines import check_task
from peft.utils.constants import TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING as lora
"""
CHECKS = """
for model_type in ("gdlf", "copy_transformer", "drgd", "highlight_transformer", "pointer_generator", "sagcopy"):
    config = AutoConfig.for_model(model_type)
    assert type(pickle.loads(pickle.dumps(config))) is type(config)
    for mapping in (MODEL_MAPPING, MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING, PROCESSOR_MAPPING):
        assert mapping[type(config)].__module__.startswith("hf_summ.models."), (model_type, mapping)
        assert type(config) in list(mapping)
assert "gdlf" in pickle.loads(pickle.dumps(CONFIG_MAPPING))
assert MODEL_MAPPING[BartConfig].__name__ == "BartModel"
name, task, _ = check_task("summarization")
assert task["impl"].__name__ == "SummarizationPipeline" and issubclass(task["pt"][0], AutoModelForSeq2SeqLM)
assert "kernel_projection" in lora["gdlf"]
"""

FIRST = {
    "hf_summ": "import hf_summ",
    "transformers": "import transformers, hf_summ",
    "registries": "from transformers import AutoModelForSeq2SeqLM, AutoProcessor, pipeline\nimport peft, hf_summ",
    "a class of ours": "from hf_summ import SummarizationPipeline, DrgdForConditionalGeneration",
    "a file of ours": "import hf_summ.models.modeling_gdlf, hf_summ.runtimes.pipeline",
}


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.thorough
@pytest.mark.parametrize("first", FIRST)
def test_architectures_are_registered_whatever_is_imported_first(first):
    run(FIRST[first] + IMPORTS + CHECKS)


@pytest.mark.thorough
def test_architectures_are_registered_in_threads():
    """Eight threads read the registries at once; transformers' own first import is not made for that."""
    run(f"""
{IMPORTS}
import hf_summ
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
barrier = Barrier(8)
def look(_):
    barrier.wait()
    exec({CHECKS!r}, dict(globals()))
with ThreadPoolExecutor(8) as pool:
    for future in [pool.submit(look, number) for number in range(8)]:
        future.result()
""")


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_architectures_are_registered_in_other_processes(tmp_path, method):
    file = tmp_path / "look.py"
    file.write_text(f"""
import multiprocessing
import hf_summ
from transformers import AutoConfig
def look(config):
    assert type(config) is hf_summ.GdlfConfig
    exec({IMPORTS + CHECKS!r}, dict())
if __name__ == "__main__":
    process = multiprocessing.get_context({method!r}).Process(target=look, args=(AutoConfig.for_model("gdlf"),))
    process.start()
    process.join()
    raise SystemExit(process.exitcode)
""")
    subprocess.run([sys.executable, str(file)], check=True)


def test_registry_is_filled_again_after_a_failure():
    attempts = []

    def fill():
        attempts.append(len(registry))
        if len(attempts) == 1:
            raise ImportError("interrupted")
        registry["gdlf"] = GdlfConfig

    registry = registration._FilledWhenRead({"bart": 1}, fill)
    with pytest.raises(ImportError, match="interrupted"):
        len(registry)
    assert dict(registry) == {"bart": 1, "gdlf": GdlfConfig}
    assert attempts == [1, 1]


def test_unknown_name_is_an_attribute_error():
    look_up, _ = lazily("hf_summ.data", {"lead": ".sentences"})
    with pytest.raises(AttributeError, match=r"module 'hf_summ\.data' has no attribute 'lad'"):
        look_up("lad")
    assert "SummarizationPipeline" in dir(__import__("hf_summ"))

"""The private names of other libraries that hf_summ uses or overrides: each is listed here, and each is still there."""

import ast
import importlib
import importlib.metadata
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from datasets import Dataset, IterableDataset
from evaluate import EvaluationModule
from sacrebleu.metrics.chrf import CHRF
from torch import nn
from transformers import (
    GenerationConfig,
    GenerationMixin,
    Pipeline,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Seq2SeqTrainer,
    Trainer,
    TrainingArguments,
)
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING
from transformers.models.longt5 import modeling_longt5
from transformers.quantizers import HfQuantizer

import hf_summ

SOURCE = Path(hf_summ.__file__).parent
USED = {
    Trainer: "_get_grad_norm _get_train_sampler _init_training_state _internal_call _run_epoch",
    Seq2SeqTrainer: "_gen_kwargs",
    TrainingArguments: "_n_gpu",
    PreTrainedConfig: "_attn_implementation _auto_class _upload_modified_files",
    PreTrainedModel: "_can_record_outputs _hf_peft_config_loaded _init_weights _is_hf_initialized _is_stateful "
    "_keys_to_ignore_on_save _no_split_modules _skip_keys_device_placement _supports_sdpa _tied_weights_keys "
    "_upload_modified_files",
    GenerationConfig: "_from_model_config",
    GenerationMixin: "_beam_search _eos_token_tensor _expand_inputs_for_generation _get_logits_processor "
    "_pad_token_tensor _prefill _prepare_decoder_input_ids_for_generation _prepare_generation_config _sample "
    "_supports_default_dynamic_cache _update_model_kwargs_for_generation",
    Pipeline: "_batch_size _default_generation_config _forward _generation_defaults _get_set_generation_params "
    "_load_feature_extractor _load_image_processor _load_processor _load_tokenizer _load_video_processor "
    "_pipeline_calls_generate _prepare_generate_kwargs _sanitize_parameters",
    type(CONFIG_MAPPING): "_extra_content",
    type(MODEL_MAPPING): "_extra_content",
    modeling_longt5: "_split_into_blocks",
    HfQuantizer: "_dequantize _process_model_after_weight_loading _process_model_before_weight_loading",
    PreTrainedTokenizerBase: "_set_processor_class",
    Dataset: "_fingerprint",
    IterableDataset: "_resolve_features",
    EvaluationModule: "_compute _feature_names _info",
    CHRF: "_compute_segment_statistics _extract_reference_info",
    nn.Module: "_apply _backward_hooks _backward_pre_hooks _forward_hooks _forward_hooks_with_kwargs "
    "_forward_pre_hooks _load_from_state_dict",
    torch: "_C _dynamo _int_mm",
    torch._C: "_are_functorch_transforms_active",
    torch.cpu: "_is_avx512_bf16_supported",
    torch.ops.aten: "_softmax_backward_data",
}
# a leading underscore, but a documented name
DOCUMENTED = {"_asdict", "_exit", "_replace"}


def is_private(name: object) -> bool:
    """Whether a name has one leading underscore, and is not documented."""
    if not isinstance(name, str) or name in DOCUMENTED:
        return False
    return re.match(r"_[a-zA-Z]", name) is not None


@pytest.mark.parametrize("owner", USED, ids=lambda owner: owner.__name__)
def test_private_names_are_there(owner):
    library, code = "torch", ""
    if inspect.isclass(owner):
        library = owner.__module__.partition(".")[0]
        # attributes that an instance gets are in the code of its class alone
        code = inspect.getsource(owner)
    missing = []
    for name in USED[owner].split():
        if not hasattr(owner, name) and not re.search(rf"\b{name}\b", code):
            missing.append(name)
    version = importlib.metadata.version(library)
    assert not missing, f"{library} {version} has no {owner.__name__}.{', '.join(missing)}: hf_summ needs another way"


@pytest.mark.thorough
def test_private_names_are_listed():
    listed = set(" ".join(USED.values()).split())
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    defined = set()
    for tree in trees.values():
        defined.update(defined_names(tree))
    used = set(overridden_names(defined))
    for path, tree in trees.items():
        for name in foreign_names(tree, defined):
            used.add((str(path.relative_to(SOURCE)), name))
    unlisted = sorted((place, name) for place, name in used if name not in listed)
    assert not unlisted, "use a public way, or add them to USED"
    unused = listed - {name for _, name in used} - {"_internal_call"}
    assert not unused, f"remove {unused} from USED"


def defined_names(tree: ast.AST) -> Iterator[str]:
    """The names that a file of ours defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def foreign_names(tree: ast.AST, defined: set[str]) -> Iterator[str]:
    """The private names of other libraries that a file uses: attributes that no file of ours defines, and imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in defined:
            yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "replaced":
            for keyword in node.keywords:
                if is_private(keyword.arg):
                    yield str(keyword.arg)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            name = getattr(node.args[1], "value", None)
            if is_private(name) and name not in defined:
                yield str(name)
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("hf_summ") and not node.level:
            for alias in node.names:
                if is_private(alias.name):
                    yield alias.name


def overridden_names(defined: set[str]) -> Iterator[tuple[str, str]]:
    """Classes of ours, with the private names of other libraries' classes that they override."""
    for module in pkgutil.walk_packages([str(SOURCE)], "hf_summ."):
        if module.name.endswith("__main__"):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if not inspect.isclass(value) or value.__module__ != module.name:
                continue
            inherited = set()
            for base in value.__mro__:
                if not base.__module__.startswith("hf_summ"):
                    inherited.update(vars(base))
            for name in vars(value).keys() & defined & inherited:
                if is_private(name):
                    yield value.__qualname__, name

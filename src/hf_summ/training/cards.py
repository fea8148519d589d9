"""transformers' model card, corrected for this recipe."""

from collections.abc import Sequence

from hf_summ.training.arguments import SummarizationTrainingArguments


def correct_card(
    text: str, args: SummarizationTrainingArguments, is_fresh: bool, pretrained_names: Sequence[str] = ()
) -> str:
    """The card with the optimizer, schedule and batches that were used; a new model is not called fine-tuned.

    Args:
        pretrained_names: the checkpoints from which parts of a new model were taken.
    """
    facts: dict[str, str | None] = {}
    if args.optimizer == "adam":
        facts["optimizer"] = f"Adam with betas=({args.adam_beta1},{args.adam_beta2}) and epsilon={args.adam_epsilon}"
    elif args.optimizer == "adadelta":
        facts["optimizer"] = f"Adadelta with rho={args.adadelta_rho} and epsilon={args.adam_epsilon}"
    if args.schedule == "noam":
        facts |= {"lr_scheduler_type": f"noam with scale {args.noam_scale}", "learning_rate": None}
    elif args.schedule == "cosine":
        period = "one period" if args.schedule_period is None else f"a restart every {args.schedule_period} updates"
        facts["lr_scheduler_type"] = f"cosine with {period}"
    for split, budget in (("train", args.train_tokens_per_batch), ("eval", args.eval_tokens_per_batch)):
        if budget is not None:
            facts |= {f"{split}_batch_size": f"{budget} tokens per device", f"total_{split}_batch_size": None}
    lines = []
    for line in text.splitlines():
        name = line.removeprefix("- ").split(":")[0] if line.startswith("- ") else ""
        if name not in facts:
            lines.append(line)
        elif facts[name] is not None:
            lines.append(f"- {name}: {facts[name]}")
    text = "\n".join(lines) + "\n"
    if is_fresh:
        start = f"with {' and '.join(pretrained_names)} as a part of it" if pretrained_names else "from scratch"
        text = text.replace("is a fine-tuned version of [](https://huggingface.co/)", f"was trained {start}")
    return text

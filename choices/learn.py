"""Teach a checkpoint which sentences of abstracts readers choose: the last step of `arxiv-tldr`.

    python choices/learn.py CHECKPOINT OUTPUT DATA...

`DATA` are the training files of SciTLDR-A and of `arxiv-title`, in JSON lines with a column `document`, also compressed
by gzip. `sentences.jsonl.gz` names abstracts and sentences by hashes alone. This takes 45 minutes of a CPU core.
"""

import argparse
import gzip
import hashlib
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, AutoProcessor

from hf_summ.models.text_candidates import features_of, sentence_candidates

CHOICES = Path(__file__).with_name("sentences.jsonl.gz")
# the rows that only measure what was learned
HELD_OUT = 350

EPOCHS = 2
BATCH_SIZE = 8
LEARNING_RATE = 2e-4
# the weights of features change faster than those of the model, and the scale of scores faster still
LEARNING_RATE_OF_FEATURE_WEIGHTS = 2e-3
LEARNING_RATE_OF_SCALE = 1e-2
WARMUP_STEPS = 20
MAX_GRAD_NORM = 1.0
DROPOUT = 0.1
# the weight of the best sentence's negative log-probability in the loss, which keeps the model a language model
SHARE_OF_NLL = 0.1
# the target probability of a good sentence, as a share of the probability of the best one
SHARE_OF_GOOD = 0.5
# at most so many candidates that the reader did not see, drawn at random, join those that the reader saw
UNSEEN_SENTENCES = 6
# before training: the factor of scores in the softmax, and the weights of features, which fit the choices best
SCALE = 2.4
FEATURE_WEIGHTS = (3.58, -0.25, -0.43, -0.60)


@dataclass(frozen=True)
class Choice:
    """An abstract with a reader's choice.

    Args:
        document: the abstract.
        sentences: the N candidates.
        features: (N, 4), as `features_of` computes them.
        seen: the places of the sentences that the reader saw.
        best: the place of the chosen sentence.
        good: the places of other sentences without fault.
        bad: the places of sentences that nobody should print. They only measure.
    """

    document: str
    sentences: list[str]
    features: Tensor
    seen: list[int]
    best: int
    good: list[int]
    bad: list[int]


class Learner(nn.Module):
    """A model, the weights of features, and the factor of scores in the softmax.

    Args:
        checkpoint: name or path of a sequence-to-sequence model.
    """

    def __init__(self, checkpoint: str):
        super().__init__()
        self.model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, dtype=torch.float32, dropout=DROPOUT)
        self.processor = AutoProcessor.from_pretrained(checkpoint)
        self.weights = nn.Parameter(torch.tensor(FEATURE_WEIGHTS))
        self.log_scale = nn.Parameter(torch.tensor(math.log(SCALE)))

    def scores(self, choice: Choice, places: list[int]) -> tuple[Tensor, Tensor]:
        """The scores of some candidates, and the mean log-probabilities of their tokens, both (N,).

        A score is the mean log-probability plus the merit.
        """
        inputs = self.processor([choice.document], return_tensors="pt", truncation=True)
        sentences = [choice.sentences[place] for place in places]
        labels = self.processor(text_target=sentences, return_tensors="pt", padding=True)["labels"]
        decoder_input_ids = self.model.prepare_decoder_input_ids_from_labels(labels)
        logits = self.model(**inputs, decoder_input_ids=decoder_input_ids, use_cache=False).logits
        losses = nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none")
        lengths = (labels != -100).sum(1)
        log_probs = -losses.view(labels.shape).sum(1) / lengths
        return log_probs + choice.features[places] @ self.weights, log_probs

    def loss(self, choice: Choice, unseen: list[int]) -> Tensor:
        """The cross-entropy of a choice among candidates, and a share of the best one's negative log-probability."""
        places = choice.seen + unseen
        scores, log_probs = self.scores(choice, places)
        target = torch.zeros(len(places))
        for place in choice.good:
            target[places.index(place)] = SHARE_OF_GOOD
        best = places.index(choice.best)
        target[best] = 1.0
        target /= target.sum()
        cross_entropy = -(target * (self.log_scale.exp() * scores).log_softmax(0)).sum()
        return cross_entropy - SHARE_OF_NLL * log_probs[best]

    @torch.no_grad()
    def agreement(self, choices: list[Choice]) -> str:
        """How often the sentence with the highest score is the best one, the best or a good one, and a bad one."""
        self.eval()
        best = best_or_good = bad = 0
        for choice in choices:
            scores, _ = self.scores(choice, list(range(len(choice.sentences))))
            place = int(scores.argmax())
            best += place == choice.best
            best_or_good += place == choice.best or place in choice.good
            bad += place in choice.bad
        self.train()
        number = len(choices)
        return f"best {best / number:.3f}, best or good {best_or_good / number:.3f}, bad {bad / number:.3f}"


def hash_of(text: str, length: int) -> str:
    """The first characters of a text's hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def documents_of(files: list[str]) -> dict[str, str]:
    """The documents of the files' rows, by their hashes."""
    documents = {}
    for file in files:
        open_file = gzip.open if file.endswith(".gz") else open
        with open_file(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                document = json.loads(line)["document"]
                documents[hash_of(document, 16)] = document
    return documents


def choices_of(documents: dict[str, str]) -> Iterator[Choice]:
    """The readers' choices among sentences of these documents, by hash, if the best one is still a candidate."""
    with gzip.open(CHOICES, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            document = documents.get(row["document"])
            if document is None:
                continue
            sentences = list(sentence_candidates(document))
            places = {hash_of(sentence, 6): place for place, sentence in enumerate(sentences)}
            if row["best"] not in places:
                continue
            yield Choice(
                document,
                sentences,
                torch.tensor(features_of(sentences, document), dtype=torch.float32),
                [places[sentence] for sentence in row["seen"] if sentence in places],
                places[row["best"]],
                [places[sentence] for sentence in row["good"] if sentence in places],
                [places[sentence] for sentence in row["bad"] if sentence in places],
            )


def learn(learner: Learner, choices: list[Choice], held_out: list[Choice], seed: int) -> None:
    """Train on choices, in another order in each epoch, with a linear warmup and a cosine schedule."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    groups = [
        {"params": learner.model.parameters(), "lr": LEARNING_RATE},
        {"params": [learner.weights], "lr": LEARNING_RATE_OF_FEATURE_WEIGHTS},
        {"params": [learner.log_scale], "lr": LEARNING_RATE_OF_SCALE},
    ]
    optimizer = torch.optim.Adam(groups)
    steps_of_epoch = len(choices) // BATCH_SIZE
    steps = EPOCHS * steps_of_epoch

    def factor(step: int) -> float:
        warmup = min(1.0, (step + 1) / WARMUP_STEPS)
        return warmup * (1 + math.cos(math.pi * step / steps)) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    learner.train()
    for epoch in range(EPOCHS):
        rng.shuffle(choices)
        total = 0.0
        for step in range(steps_of_epoch):
            optimizer.zero_grad()
            for choice in choices[step * BATCH_SIZE : (step + 1) * BATCH_SIZE]:
                unseen = [place for place in range(len(choice.sentences)) if place not in choice.seen]
                loss = learner.loss(choice, rng.sample(unseen, min(len(unseen), UNSEEN_SENTENCES))) / BATCH_SIZE
                loss.backward()
                total += loss.item()
            nn.utils.clip_grad_norm_(learner.parameters(), MAX_GRAD_NORM)
            optimizer.step()
            schedule.step()
            if (step + 1) % 40 == 0:
                print(f"epoch {epoch + 1}, update {step + 1} of {steps_of_epoch}: {total / (step + 1):.3f}", flush=True)
        print(f"epoch {epoch + 1}: {learner.agreement(held_out)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Teach a checkpoint which sentences of abstracts readers choose.")
    parser.add_argument("checkpoint", help="name or path of a sequence-to-sequence model")
    parser.add_argument("output", help="folder of the new checkpoint")
    parser.add_argument("data", nargs="+", help="JSON lines with a column `document`")
    parser.add_argument("--seed", type=int, default=1, help="of the order of abstracts, and of dropout (default: 1)")
    arguments = parser.parse_args()
    choices = list(choices_of(documents_of(arguments.data)))
    print(f"{len(choices)} choices, of which {HELD_OUT} only measure")
    if len(choices) < HELD_OUT + BATCH_SIZE:
        parser.error("too few of the abstracts are in these files")
    learner = Learner(arguments.checkpoint)
    held_out, training = choices[:HELD_OUT], choices[HELD_OUT:]
    print(f"before: {learner.agreement(held_out)}", flush=True)
    learn(learner, training, held_out, arguments.seed)
    # the package has the weights in `text_candidates.FEATURE_WEIGHTS`, and needs no scale
    print(f"weights of features: {learner.weights.tolist()}, scale: {learner.log_scale.exp().item():.2f}")
    # in 16 bits, as the bundled model
    learner.model.half().save_pretrained(arguments.output)
    learner.processor.save_pretrained(arguments.output)


if __name__ == "__main__":
    main()

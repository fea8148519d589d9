"""The work on one shard, which is the same in this process, in several, and on Ray."""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

from hf_summ.common.messages import one_line
from hf_summ.offline.shards import TOLD, Row, Shard, Summarized

# is given the number of rows that were summarized since the last call
Tell = Callable[[int], object]
# what every model can summarize, unless it is the model or its settings that are wrong
_PLAIN_TEXT = "The mayor opened the new bridge on Monday."


@dataclass(frozen=True)
class Work:
    """What is done to each row. It travels to other processes, so it has what loads the model, and not the model.

    Args:
        load: gives the pipeline; its argument `device`, if given, is the one to use unless another was asked for.
        settings: settings of the pipeline's call.
        batch_size: number of documents per batch.
        output_column: the column for the summaries.
        phrases: for models that read key phrases, those of every document.
    """

    load: Callable[..., Any]
    settings: dict[str, Any]
    batch_size: int
    output_column: str
    phrases: dict[str, float] | None = None

    def begin(self, **where: Any) -> "ShardSummarizer":
        """Load the model; `where` may have its `device`."""
        return ShardSummarizer(self, self.load(**where))


class ShardSummarizer:
    """Summarizes shards with a loaded model.

    Args:
        work: what is done.
        summarizer: the pipeline.
    """

    def __init__(self, work: Work, summarizer: Any):
        self._work = work
        self._summarizer = summarizer
        # a checkpoint may ask for several
        self._settings = {**work.settings, "num_return_sequences": 1, "return_details": True}

    def __call__(self, shard: Shard, tell: Tell) -> Summarized:
        """The shard's rows with their summaries, in their order.

        Documents are batched by length. A row that the model cannot summarize has the reason in `error`, and the others
        of its batch are summarized one by one.

        Raises:
            ValueError: the model cannot summarize a plain sentence either.
        """
        # texts that are drawn must not depend on which process draws them
        torch.manual_seed(shard.number)
        texts = {index: row.text for index, row in enumerate(shard.rows) if row.text is not None}
        # the longest first, so that memory which does not suffice is told soon
        order = sorted(texts, key=lambda index: -_length(texts[index]))
        tell(len(shard.rows) - len(texts))
        found = {}
        with _no_warnings(self._summarizer):
            for index, record in zip(order, self._summarize([texts[index] for index in order]), strict=True):
                found[index] = record
                tell(1)
        return Summarized(shard.number, [self._told(row, found.get(index)) for index, row in enumerate(shard.rows)])

    def _summarize(self, texts: list[Any]) -> Iterator[dict[str, Any] | str]:
        """What the pipeline says of each text, or why it says nothing."""
        done = 0
        while done < len(texts):
            try:
                for (record,) in self._call(texts[done:], self._work.batch_size):
                    done += 1
                    yield record
            except Exception:
                batch = texts[done : done + self._work.batch_size]
                for text in batch:
                    done += 1
                    yield self._alone(text)

    def _alone(self, text: Any) -> dict[str, Any] | str:
        try:
            return next(iter(self._call([text], 1)))[0]
        except Exception as error:
            self._check_itself()
            return one_line(error) or type(error).__name__

    def _check_itself(self) -> None:
        try:
            next(iter(self._call([_PLAIN_TEXT], 1)))
        except Exception as error:
            raise ValueError(f"no document can be summarized: {one_line(error) or type(error).__name__}") from error

    def _call(self, texts: list[Any], batch_size: int):
        phrases = {} if self._work.phrases is None else {"phrases": [self._work.phrases] * len(texts)}
        return self._summarizer(_Texts(texts), batch_size=batch_size, **phrases, **self._settings)

    def _told(self, row: Row, record: dict[str, Any] | str | None) -> dict[str, Any]:
        summary, tokens, error = None, [None, None], row.error
        if isinstance(record, str):
            error = record
        elif record is not None:
            summary, tokens = record["summary_text"], [record["details"][name] for name in TOLD[:2]]
        return {**row.values, self._work.output_column: summary, **dict(zip(TOLD, [*tokens, error], strict=True))}


class _Texts(Dataset):
    """A list that the pipeline reads lazily, so that what is done before an error is not lost."""

    def __init__(self, texts: Sequence[Any]):
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> Any:
        return self._texts[index]


@contextmanager
def _no_warnings(summarizer: Any) -> Generator[None]:
    """Within, the pipeline does not warn of documents that are cut, which is told once for all shards."""
    logger = logging.getLogger(type(summarizer).__module__)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _length(text: str | list[str]) -> int:
    return len(text) if isinstance(text, str) else sum(map(len, text))

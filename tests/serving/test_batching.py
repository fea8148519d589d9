"""Batches of documents: which are decoded together, which fail, and what a full queue says."""

import threading
import time

import pytest

from hf_summ.serving import Limits
from hf_summ.serving.batching import Batcher, Unavailable
from tests.serving.conftest import wait_until

SETTINGS = {"num_beams": 2}


class Decoder:
    """Returns texts in capitals, and keeps what it was called with; "bad" texts fail, and "slow" texts wait."""

    def __init__(self):
        self.batches: list[tuple[list[str], dict]] = []
        self.may_go_on = threading.Event()

    def __call__(self, documents, settings):
        self.batches.append((list(documents), settings))
        if "slow" in documents:
            assert self.may_go_on.wait(30)
        if "bad" in documents:
            raise ValueError("a bad document")
        return [document.upper() for document in documents]


@pytest.fixture
def decoder():
    return Decoder()


@pytest.fixture
def batcher_of(decoder):
    """Makes a batcher that runs; all are closed at the end."""
    made = []

    def make(batch_size=4, wait=0.2, capacity=100, on_change=lambda waiting: None, decode=decoder):
        limits = Limits(batch_size=batch_size, batch_wait=1000 * wait, limit_queue=capacity)
        batcher = Batcher(decode, limits, on_change)
        thread = threading.Thread(target=batcher.run)
        thread.start()
        made.append((batcher, thread))
        return batcher

    yield make
    decoder.may_go_on.set()
    for batcher, thread in made:
        batcher.close()
        thread.join(30)
        assert not thread.is_alive()


def submit(batcher, text, settings=SETTINGS):
    (future,) = batcher.submit([text], settings)
    return future


def test_documents_of_similar_length_and_equal_settings_are_decoded_together(batcher_of, decoder):
    batcher = batcher_of()
    futures = [submit(batcher, text) for text in ("one", "two", "x" * 100, "three")]
    greedy = submit(batcher, "four", {"num_beams": 1})
    assert [future.result(30) for future in futures] == ["ONE", "TWO", "X" * 100, "THREE"]
    assert greedy.result(30) == "FOUR"
    assert decoder.batches == [
        (["one", "two", "three"], SETTINGS),
        (["x" * 100], SETTINGS),
        (["four"], {"num_beams": 1}),
    ]


def test_a_full_batch_does_not_wait(batcher_of, decoder):
    batcher = batcher_of(batch_size=2, wait=1000)
    futures = batcher.submit(list("abcd"), {})
    assert [future.result(30) for future in futures] == list("ABCD")
    assert [documents for documents, _ in decoder.batches] == [["a", "b"], ["c", "d"]]
    # and a document alone waits no longer than told
    batcher = batcher_of(wait=0.05)
    began = time.monotonic()
    assert submit(batcher, "a").result(30) == "A"
    assert 0.05 <= time.monotonic() - began < 5


def test_the_document_that_waited_longest_goes_next(batcher_of, decoder):
    batcher = batcher_of(batch_size=2, wait=0)
    futures = [submit(batcher, "slow")]
    wait_until(lambda: bool(decoder.batches))
    futures += batcher.submit(["x" * 100, "a", "x" * 90, "x" * 99, "b"], {})
    decoder.may_go_on.set()
    for future in futures:
        future.result(30)
    # those whose length is most similar go with it
    assert [documents for documents, _ in decoder.batches] == [["slow"], ["x" * 100, "x" * 99], ["a", "b"], ["x" * 90]]


@pytest.mark.parametrize("bad", [0, 2, 3])
def test_a_bad_document_fails_alone(batcher_of, bad):
    texts = list("abcd")
    texts[bad] = "bad"
    futures = batcher_of(wait=1000).submit(texts, {})
    for row, future in enumerate(futures):
        if row == bad:
            with pytest.raises(ValueError, match="a bad document"):
                future.result(30)
        else:
            assert future.result(30) == texts[row].upper()


class Panic(BaseException):
    """A failure as in a library in Rust: PyO3's PanicException is no Exception (openai/tiktoken#15)."""


@pytest.mark.parametrize("fault", [lambda: [], lambda: ["one", "too many"], Panic])
def test_no_fault_ends_the_thread(batcher_of, fault):
    def decode(documents, settings):
        if "fault" not in documents:
            return documents
        result = fault()
        if isinstance(result, Panic):
            raise result
        return result

    batcher = batcher_of(wait=0.05, decode=decode)
    first, faulty, last = batcher.submit(["a", "fault", "b"], {})
    assert (first.result(30), last.result(30)) == ("a", "b")
    assert isinstance(faulty.exception(30), (ValueError, Panic))
    assert submit(batcher, "c").result(30) == "c"


def test_a_full_queue_rejects_requests(batcher_of, decoder):
    waiting_counts = []
    batcher = batcher_of(batch_size=1, wait=0, capacity=2, on_change=waiting_counts.append)
    first = submit(batcher, "slow")
    wait_until(lambda: bool(decoder.batches))
    waiting = batcher.submit(["a", "b"], {})
    with pytest.raises(Unavailable, match="2 documents are waiting: try again later"):
        submit(batcher, "c")
    decoder.may_go_on.set()
    assert first.result(30) == "SLOW"
    assert [future.result(30) for future in waiting] == ["A", "B"]
    assert max(waiting_counts) == 2
    assert waiting_counts[-1] == 0
    assert submit(batcher, "a").result(30) == "A"


def test_what_is_cancelled_frees_its_place_and_is_not_decoded(batcher_of, decoder):
    batcher = batcher_of(batch_size=1, wait=0, capacity=1)
    submit(batcher, "slow")
    wait_until(lambda: bool(decoder.batches))
    assert submit(batcher, "dropped").cancel()
    kept = submit(batcher, "kept")
    decoder.may_go_on.set()
    assert kept.result(30) == "KEPT"
    assert [documents for documents, _ in decoder.batches] == [["slow"], ["kept"]]


def test_closing_fails_what_is_waiting(batcher_of, decoder):
    batcher = batcher_of(batch_size=1, wait=0)
    begun = submit(batcher, "slow")
    wait_until(lambda: bool(decoder.batches))
    waiting = submit(batcher, "a")
    batcher.close()
    with pytest.raises(Unavailable, match="the service is shutting down"):
        submit(batcher, "b")
    with pytest.raises(Unavailable, match="the service is shutting down"):
        waiting.result(30)
    decoder.may_go_on.set()
    assert begun.result(30) == "SLOW"

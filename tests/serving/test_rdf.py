"""Documents and summaries in RDF, read back."""

import uuid

import rdflib
from rdflib import RDF, Graph, Literal, Namespace
from rdflib.namespace import DCTERMS, PROV

from hf_summ.serving.rdf import as_turtle

NIF = Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")
HOSTILE = 'He said "no" \\ \'yes\' <b>&amp;</b>\r\n\t🌉 """ \x00\x1f 日本語 <#x> @en .'
DOCUMENT = f"First one. {HOSTILE} The last one."
SENTENCES = [{"index": 0, "start": 0, "end": 10}, {"index": 2, "start": len(DOCUMENT) - 13, "end": len(DOCUMENT)}]


def read_back(result, document=DOCUMENT) -> Graph:
    return Graph().parse(data=as_turtle([document], [result]))


def test_texts_and_extracted_sentences_come_back():
    graph = read_back({"summary_text": HOSTILE, "details": {"sentences": SENTENCES}})
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    for context, text in ((source, DOCUMENT), (summary, HOSTILE)):
        assert set(graph.objects(context, RDF.type)) == {NIF.Context, NIF.RFC5147String}
        assert str(graph.value(context, NIF.isString)) == text
        assert graph.value(context, NIF.beginIndex) == Literal(0, datatype=rdflib.XSD.nonNegativeInteger)
        assert graph.value(context, NIF.endIndex).toPython() == len(text)
        assert str(context).endswith(f"#char=0,{len(text)}")
    sentences = set(graph.subjects(NIF.referenceContext, source))
    assert set(graph.objects(summary, PROV.wasDerivedFrom)) == {source} | sentences
    assert set(graph.subjects(RDF.type, NIF.Sentence)) == sentences
    texts = {}
    for sentence in sentences:
        start = graph.value(sentence, NIF.beginIndex).toPython()
        end = graph.value(sentence, NIF.endIndex).toPython()
        assert str(sentence) == f"{str(source).partition('#')[0]}#char={start},{end}"
        texts[start, end] = str(graph.value(sentence, NIF.anchorOf))
    # places count characters, of which one here is two units of UTF-16
    assert texts == {(0, 10): "First one.", (len(DOCUMENT) - 13, len(DOCUMENT)): "The last one."}


def test_a_document_that_was_not_shortened_has_no_sentences():
    graph = read_back({"summary_text": ""}, "")
    assert not list(graph.subjects(RDF.type, NIF.Sentence))
    # the document is not its summary, even if both are blank
    ((source, summary),) = graph.subject_objects(DCTERMS.abstract)
    assert source != summary
    assert read_back({"summary_text": ""}, "").isomorphic(graph)
    # several documents are one graph
    results = [{"summary_text": "One."}, {"summary_text": "Two."}]
    graph = Graph().parse(data=as_turtle(["First one.", "Second one."], results))
    summaries = {}
    for source, summary in graph.subject_objects(DCTERMS.abstract):
        summaries[str(graph.value(source, NIF.isString))] = str(graph.value(summary, NIF.isString))
    assert summaries == {"First one.": "One.", "Second one.": "Two."}


def test_sentences_of_several_documents_of_one_resource_have_different_uris():
    first, second = "First one. More.", "Second one. More."
    uris = [f"http://a.org/x#char=0,{len(first)}", "http://a.org/x#2"]
    results = []
    for end in (10, 11):
        results.append({"summary_text": "", "details": {"sentences": [{"start": 0, "end": end}]}})
    turtle = as_turtle([first, second, second], [*results, results[1]], [*uris, "http://a.org/y"])
    graph = Graph().parse(data=turtle)
    sentences = {}
    for sentence, context in graph.subject_objects(NIF.referenceContext):
        sentences[str(context)] = str(sentence), str(graph.value(sentence, NIF.anchorOf))
    # a document that is only a part of its resource has a URN of its own, which follows from its text
    assert sentences == {
        uris[0]: ("http://a.org/x#char=0,10", "First one."),
        uris[1]: (f"{uuid.uuid5(uuid.NAMESPACE_OID, second).urn}#char=0,11", "Second one."),
        "http://a.org/y": ("http://a.org/y#char=0,11", "Second one."),
    }

"""Documents and their summaries in Turtle and NIF 2.0, a vocabulary that identifies spans of text by their offsets."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rdflib import RDF, XSD, Graph, Literal, Namespace, URIRef
from rdflib.namespace import DCTERMS, PROV

from hf_summ.common.messages import one_line
from hf_summ.models.text_documents import readable

TURTLE = "text/turtle"
_NIF = Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")


def read_contexts(turtle: str) -> dict[str, str]:
    """The texts of the documents (`nif:isString`) in Turtle, by their URIs, in the order of these.

    Raises:
        ValueError: it is not Turtle, or has no text.
    """
    try:
        graph = Graph().parse(data=turtle, format="turtle")
        contexts = sorted(graph.subject_objects(_NIF.isString))
        for context, _ in contexts:
            # rdflib reads URIs that it cannot write, as those with spaces
            context.n3()
    except Exception as error:
        # rdflib raises errors of many types
        raise ValueError(f"not Turtle ({one_line(error):.255})") from error
    if not contexts:
        raise ValueError("it has no `nif:isString`")
    return {str(context): readable(str(text)) for context, text in contexts}


def as_turtle(documents: Sequence[str], results: Sequence[Mapping[str, Any]], uris: Sequence[str] = ()) -> bytes:
    """Turtle of documents, their summaries, and the sentences that were extracted for the model.

    Both texts are a `nif:Context`; extracted sentences refer to that of their document. Equal documents have equal
    URNs, as do equal summaries of one document. Offsets count Unicode characters from 0; ends are exclusive.

    Args:
        results: for each document its `summary_text`, and if it was shortened, the extracted `sentences` in `details`.
        uris: the documents' URIs, in place of URNs.
    """
    graph = Graph()
    graph.bind("nif", _NIF)
    for row, (document, result) in enumerate(zip(documents, results, strict=True)):
        summary = result["summary_text"]
        name = uuid.uuid5(uuid.NAMESPACE_OID, document)
        base = uris[row].partition("#")[0] if uris else name.urn
        source = _add_span(graph, base, document, (0, len(document)), _NIF.Context, uris[row] if uris else None)
        derived = _add_span(graph, uuid.uuid5(name, summary).urn, summary, (0, len(summary)), _NIF.Context)
        graph.add((source, DCTERMS.abstract, derived))
        graph.add((derived, PROV.wasDerivedFrom, source))
        for offsets in result.get("details", {}).get("sentences", ()):
            sentence = _add_span(graph, base, document, (offsets["start"], offsets["end"]), _NIF.Sentence)
            graph.add((sentence, _NIF.referenceContext, source))
            graph.add((derived, PROV.wasDerivedFrom, sentence))
    return graph.serialize(format="turtle", encoding="utf-8")


def _add_span(
    graph: Graph, base: str, text: str, offsets: tuple[int, int], span_class: URIRef, uri: str | None = None
) -> URIRef:
    """Add a span of a text, as a whole (`nif:Context`) or of some of its characters, and return its URI."""
    start, end = offsets
    span = URIRef(uri or f"{base}#char={start},{end}")
    graph.add((span, RDF.type, span_class))
    graph.add((span, RDF.type, _NIF.RFC5147String))
    content = _NIF.isString if span_class == _NIF.Context else _NIF.anchorOf
    graph.add((span, content, Literal(text[start:end], datatype=XSD.string)))
    graph.add((span, _NIF.beginIndex, Literal(start, datatype=XSD.nonNegativeInteger)))
    graph.add((span, _NIF.endIndex, Literal(end, datatype=XSD.nonNegativeInteger)))
    return span

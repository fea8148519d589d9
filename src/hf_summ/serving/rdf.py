"""Documents and their summaries in Turtle and NIF 2.0, a vocabulary that identifies spans of text by their offsets."""

import logging
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from rdflib import RDF, XSD, BNode, Graph, Literal, Namespace, URIRef
from rdflib.namespace import DCTERMS, PROV

from hf_summ.common.messages import one_line
from hf_summ.models.text_documents import readable

TURTLE = "text/turtle"
_NIF = Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")


# characters of a URI; a prefix is repeated in each name that it abbreviates, which could exhaust the memory
_LONGEST_URI = 2048
# rdflib logs URIs and values that it cannot write, with clients' own line ends and a traceback for each
logging.getLogger("rdflib.term").setLevel(logging.CRITICAL)


class _Contexts(Graph):
    """A graph that takes the texts of documents, and leaves out all other statements."""

    def add(self, triple):
        """Add a statement if it is a text.

        Raises:
            ValueError: its document cannot be named in Turtle.
        """
        context, relation, _ = triple
        if relation != _NIF.isString:
            return self
        if isinstance(context, Literal):
            raise ValueError("a text is the subject of `nif:isString`")
        if len(context) > _LONGEST_URI:
            raise ValueError(f"a URI has more than {_LONGEST_URI} characters")
        # rdflib reads URIs that it cannot write, as those with spaces
        context.n3()
        return super().add(triple)


def read_contexts(turtle: str, base: str) -> dict[str, str]:
    """The texts of the documents (`nif:isString`) in Turtle, by their URIs, in the order of these.

    A document that is a blank node has the URN of `as_turtle`.

    Args:
        base: the URI to which relative ones refer; without it, rdflib takes the folder of this process.

    Raises:
        ValueError: it is not Turtle, or has no text.
    """
    try:
        graph = _Contexts().parse(data=turtle, format="turtle", publicID=base)
        contexts = sorted(graph.subject_objects(_NIF.isString))
    except Exception as error:
        # rdflib raises errors of many types
        raise ValueError(f"not Turtle ({one_line(error):.255})") from error
    if not contexts:
        raise ValueError("it has no `nif:isString`")
    texts = {}
    for context, literal in contexts:
        text = readable(str(literal))
        uri = _context_uri(_name(text).urn, text) if isinstance(context, BNode) else str(context)
        texts[uri] = text
    return texts


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
        name = _name(document)
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


def _name(document: str) -> uuid.UUID:
    """What names a document without a URI; equal documents have equal names."""
    return uuid.uuid5(uuid.NAMESPACE_OID, document)


def _context_uri(base: str, text: str) -> str:
    """The URI of a whole text."""
    return f"{base}#char=0,{len(text)}"


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

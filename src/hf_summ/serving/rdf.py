"""Documents and their summaries in Turtle and NIF 2.0, a vocabulary that identifies spans of text by their offsets."""

import logging
import uuid
from collections.abc import Sequence

from rdflib import RDF, XSD, BNode, Graph, Literal, Namespace, URIRef
from rdflib.namespace import DCTERMS, PROV

from hf_summ.common.messages import one_line
from hf_summ.models.text_documents import readable
from hf_summ.serving.schema import SummaryRecord

TURTLE = "text/turtle"
_NIF = Namespace("http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#")

# The largest number of characters of a URI. A prefix is repeated in each name that it abbreviates, so that longer URIs
# could exhaust the memory.
_LONGEST_URI = 2048
# rdflib would log each URI and value that it cannot write, with a traceback and the line ends of the client's text.
logging.getLogger("rdflib.term").setLevel(logging.CRITICAL)


class _Contexts(Graph):
    """A graph of the texts of documents, which NIF calls contexts. It leaves out all other statements."""

    def add(self, triple):
        """Add a statement if it gives the text of a document.

        Raises:
            ValueError: the node of the document cannot be named in Turtle, as it is a text or no valid URI, or its URI
                is too long.
        """
        context, relation, _ = triple
        if relation != _NIF.isString:
            return self
        if isinstance(context, Literal):
            raise ValueError("the subject of `nif:isString` must be a resource, but is a text")
        if len(context) > _LONGEST_URI:
            raise ValueError(f"a URI has more than {_LONGEST_URI} characters")
        # rdflib reads URIs that it cannot write, such as those with spaces. For these, `n3` raises an error.
        context.n3()
        return super().add(triple)


def read_contexts(turtle: str, base: str) -> dict[str, str]:
    """Read the texts of documents (`nif:isString`) in Turtle.

    Args:
        turtle: the statements.
        base: the URI to which relative URIs refer; without it, rdflib takes the folder of this process.

    Returns:
        The texts by the URIs of the documents, in the order of the URIs. A document that is a blank node gets the URN
        that `as_turtle` gives it.

    Raises:
        ValueError: the text is not Turtle, or states no text of a document or several texts of one.
    """
    try:
        graph = _Contexts().parse(data=turtle, format="turtle", publicID=base)
        contexts = sorted(graph.subject_objects(_NIF.isString))
    except Exception as error:
        # rdflib raises errors of many types.
        raise ValueError(f"not Turtle ({one_line(error):.255})") from error
    if not contexts:
        raise ValueError("it has no `nif:isString`")
    texts = {}
    for context, literal in contexts:
        text = readable(str(literal))
        if isinstance(context, BNode):
            uri = _span_uri(_name(text).urn, 0, len(text))
        else:
            uri = str(context)
        if texts.setdefault(uri, text) != text:
            raise ValueError(f"<{uri}> has several values of `nif:isString`: name each text by a URI")
    return texts


def as_turtle(documents: Sequence[str], results: Sequence[SummaryRecord], uris: Sequence[str] = ()) -> bytes:
    """Write documents, their summaries, and the extracted sentences that the model read, in Turtle.

    A document and its summary each are a `nif:Context`. Extracted sentences refer to the context of their document.
    Offsets count Unicode characters from 0, and the end of a span is exclusive. A summary is named by a URN, which
    follows from the texts of the document and of the summary: equal summaries of equal documents have equal URNs.

    Args:
        documents: the texts.
        results: the pipeline's result for each document.
        uris: the URI of each document. If there are none, each document gets a URN that follows from its text, so that
            equal documents have equal URNs.

    Returns:
        The statements in UTF-8.
    """
    graph = Graph()
    graph.bind("nif", _NIF)
    for row, (document, result) in enumerate(zip(documents, results, strict=True)):
        summary = result["summary_text"]
        name = _name(document)
        document_uri = uris[row] if uris else _span_uri(name.urn, 0, len(document))
        summary_uri = _span_uri(uuid.uuid5(name, summary).urn, 0, len(summary))
        source = _add_context(graph, document_uri, document)
        derived = _add_context(graph, summary_uri, summary)
        graph.add((source, DCTERMS.abstract, derived))
        graph.add((derived, PROV.wasDerivedFrom, source))
        base, _, fragment = document_uri.partition("#")
        if fragment not in ("", f"char=0,{len(document)}"):
            # Offsets after `#` would refer to the whole resource, of which this document is only a part.
            base = name.urn
        for offsets in result.get("details", {}).get("sentences", []):
            start, end = offsets["start"], offsets["end"]
            sentence = URIRef(_span_uri(base, start, end))
            graph.add((sentence, RDF.type, _NIF.Sentence))
            graph.add((sentence, _NIF.anchorOf, Literal(document[start:end], datatype=XSD.string)))
            _add_offsets(graph, sentence, start, end)
            graph.add((sentence, _NIF.referenceContext, source))
            graph.add((derived, PROV.wasDerivedFrom, sentence))
    return graph.serialize(format="turtle", encoding="utf-8")


def _name(document: str) -> uuid.UUID:
    """The name of a document, which follows from its text: equal documents have equal names.

    The URN of a document without a URI is made of this name, and so is the URN of every document's summary.
    """
    return uuid.uuid5(uuid.NAMESPACE_OID, document)


def _span_uri(base: str, start: int, end: int) -> str:
    """The URI of the [start, end) characters of the text with the URI `base`, as RFC 5147 defines it."""
    return f"{base}#char={start},{end}"


def _add_context(graph: Graph, uri: str, text: str) -> URIRef:
    """Add a whole text, and return its node in the graph."""
    context = URIRef(uri)
    graph.add((context, RDF.type, _NIF.Context))
    graph.add((context, _NIF.isString, Literal(text, datatype=XSD.string)))
    _add_offsets(graph, context, 0, len(text))
    return context


def _add_offsets(graph: Graph, span: URIRef, start: int, end: int) -> None:
    """Add the offsets of the [start, end) characters of a text that a node stands for."""
    graph.add((span, RDF.type, _NIF.RFC5147String))
    graph.add((span, _NIF.beginIndex, Literal(start, datatype=XSD.nonNegativeInteger)))
    graph.add((span, _NIF.endIndex, Literal(end, datatype=XSD.nonNegativeInteger)))

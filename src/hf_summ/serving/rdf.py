"""A document and its summary as RDF, in the vocabulary NIF 2.0, which names pieces of text by their offsets."""

import uuid
from collections.abc import Mapping
from typing import Any

# media type -> rdflib's name of the format
FORMATS = {"text/turtle": "turtle", "application/ld+json": "json-ld"}
_NIF = "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#"


def as_rdf(document: str, result: Mapping[str, Any], media_type: str) -> bytes:
    """The document, the summary that is derived from it, and the sentences that were kept for the model.

    Both texts are a `nif:Context`, and the kept sentences refer to that of the document. Equal documents have equal
    names, and so have equal summaries of them; offsets count Unicode characters, from 0, and ends are exclusive.

    Args:
        result: `summary_text`, and in `details` the `sentences` that were kept, if the document was shortened.
        media_type: one of `FORMATS`.
    """
    from rdflib import RDF, XSD, Graph, Literal, Namespace, URIRef
    from rdflib.namespace import DCTERMS, PROV

    nif = Namespace(_NIF)
    graph = Graph()
    graph.bind("nif", nif)

    def add(name: uuid.UUID, text: str, start: int, end: int, kind: URIRef, says: URIRef) -> URIRef:
        place = URIRef(f"{name.urn}#char={start},{end}")
        for other in (kind, nif.RFC5147String):
            graph.add((place, RDF.type, other))
        graph.add((place, says, Literal(text[start:end], datatype=XSD.string)))
        for relation, offset in ((nif.beginIndex, start), (nif.endIndex, end)):
            graph.add((place, relation, Literal(offset, datatype=XSD.nonNegativeInteger)))
        return place

    summary = result["summary_text"]
    name = uuid.uuid5(uuid.NAMESPACE_OID, document)
    source = add(name, document, 0, len(document), nif.Context, nif.isString)
    derived = add(uuid.uuid5(name, summary), summary, 0, len(summary), nif.Context, nif.isString)
    graph.add((source, DCTERMS.abstract, derived))
    graph.add((derived, PROV.wasDerivedFrom, source))
    for kept in result.get("details", {}).get("sentences", ()):
        sentence = add(name, document, kept["start"], kept["end"], nif.Sentence, nif.anchorOf)
        graph.add((sentence, nif.referenceContext, source))
        graph.add((derived, PROV.wasDerivedFrom, sentence))
    return graph.serialize(format=FORMATS[media_type], encoding="utf-8")

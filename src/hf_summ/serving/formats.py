"""Response formats: negotiation by the `Accept` header (RFC 9110, section 12.5.1), and RDF.

RDF uses the vocabulary NIF 2.0, which identifies spans of text by their offsets.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

JSON = "application/json"
# media type -> rdflib's name of the format
FORMATS = {"text/turtle": "turtle", "application/ld+json": "json-ld"}
_NIF = "http://persistence.uni-leipzig.org/nlp2rdf/ontologies/nif-core#"


def preferred(accept: str | None, offered: Sequence[str]) -> str | None:
    """The media type that a client prefers, the first in case of a tie.

    Args:
        accept: the header, such as `text/turtle;q=0.9, */*;q=0.1`; None or blank accepts any type.
        offered: media types without parameters.

    Returns:
        None if the client accepts none of them.
    """
    ranges = [parsed for part in (accept or "").split(",") if (parsed := _range(part)) is not None]
    if not ranges:
        return None if accept and accept.strip() else offered[0]
    qualities = {media_type: _quality(media_type, ranges) for media_type in offered}
    best = max(offered, key=lambda media_type: qualities[media_type])
    return best if qualities[best] > 0 else None


def _range(part: str) -> tuple[str, float] | None:
    """A media range and its quality from 0 to 1; None if the part is malformed."""
    media_range, *parameters = (word.strip().lower() for word in part.split(";"))
    if media_range.count("/") != 1:
        return None
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                # NaN counts as 0
                return media_range, min(max(float(value), 0.0), 1.0) if float(value) == float(value) else 0.0
            except ValueError:
                return None
    return media_range, 1.0


def _quality(media_type: str, ranges: Sequence[tuple[str, float]]) -> float:
    """Quality of the most specific range that contains the type; 0 if none does."""
    for candidate in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        qualities = [quality for media_range, quality in ranges if media_range == candidate]
        if qualities:
            return max(qualities)
    return 0.0


def as_rdf(document: str, result: Mapping[str, Any], media_type: str) -> bytes:
    """RDF of the document, its summary, and the sentences that were kept for the model.

    Both texts are a `nif:Context`; the kept sentences refer to that of the document. Equal documents have equal URNs,
    as do equal summaries of one document. Offsets count Unicode characters from 0; ends are exclusive.

    Args:
        result: `summary_text`, and if the document was shortened, the kept `sentences` in `details`.
        media_type: one of `FORMATS`.
    """
    from rdflib import RDF, XSD, Graph, Literal, Namespace, URIRef
    from rdflib.namespace import DCTERMS, PROV

    nif = Namespace(_NIF)
    graph = Graph()
    graph.bind("nif", nif)

    def add(name: uuid.UUID, text: str, start: int, end: int, kind: URIRef, predicate: URIRef) -> URIRef:
        place = URIRef(f"{name.urn}#char={start},{end}")
        for other in (kind, nif.RFC5147String):
            graph.add((place, RDF.type, other))
        graph.add((place, predicate, Literal(text[start:end], datatype=XSD.string)))
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

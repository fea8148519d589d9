"""The service on Ray Serve, each replica with its own model: serve run examples.ray_serve:summarizer."""

from ray import serve

from hf_summ import bundled_model
from hf_summ.serving import Service, create_app


def build_app():
    """The application of a replica, which serves the bundled model on the same paths as `hf-summ serve`."""
    from transformers import pipeline

    return create_app(Service(lambda: pipeline("summarization", model=bundled_model())).start())


@serve.deployment(max_ongoing_requests=256)
@serve.ingress(build_app)
class Summarizer:
    """Answers as `hf-summ serve` does."""


summarizer = Summarizer.bind()

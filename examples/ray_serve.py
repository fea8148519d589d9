"""The service on Ray Serve, which starts a replica for each model: serve run examples.ray_serve:summarizer."""

from ray import serve

from hf_summ import shipped_model
from hf_summ.serving import Service, answer


@serve.deployment(max_ongoing_requests=256)
class Summarizer:
    """Answers like `POST /` of `hf-summ serve`; Ray's proxy serves the other paths.

    Args:
        checkpoint: a folder or a repository (default: the bundled model).
    """

    def __init__(self, checkpoint: str | None = None):
        from transformers import pipeline

        self.service = Service(lambda: pipeline("summarization", model=checkpoint or shipped_model())).start()

    async def __call__(self, request):
        return await answer(self.service, request)

    def check_health(self):
        if self.service.problem is not None:
            raise self.service.problem


summarizer = Summarizer.bind()

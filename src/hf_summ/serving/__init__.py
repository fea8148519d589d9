"""The service: summaries over HTTP, decoded in batches."""

from hf_summ.serving.app import answer, create_app
from hf_summ.serving.service import Service
from hf_summ.serving.settings import Limits

__all__ = ["Limits", "Service", "answer", "create_app"]

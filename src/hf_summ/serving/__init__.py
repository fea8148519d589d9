"""The service: summaries over HTTP, decoded in batches."""

from typing import TYPE_CHECKING

from hf_summ.common.lazy import lazily

if TYPE_CHECKING:
    from hf_summ.serving.app import create_app
    from hf_summ.serving.service import Service
    from hf_summ.serving.settings import Limits

__all__ = ["Limits", "Service", "create_app"]

__getattr__, __dir__ = lazily(__name__, {"create_app": ".app", "Limits": ".settings", "Service": ".service"})

"""Why a request gets no summary, as HTTP says it."""


class Refusal(Exception):
    """A request that is refused.

    Attributes:
        status: the HTTP status.
        headers: further headers of the answer.
    """

    def __init__(self, status: int, message: str, **headers: str):
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def unavailable(message: str, seconds: float) -> Refusal:
    """The refusal of a request that may succeed after so many seconds."""
    # a connection that stayed open could be closed, as idle, just when the client comes back
    return Refusal(503, message, Retry_After=str(min(max(round(seconds), 1), 60)), Connection="close")

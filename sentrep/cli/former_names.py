"""Arguments that had another name, or another place, in a former version: what to write instead."""

from __future__ import annotations

_COMPUTE = "model.encoder.compute"

_FORMER = {
    "SentenceEncoder": {
        "packed": f"{_COMPUTE}.layout (packed)",
        "chunks": f"{_COMPUTE}.layout (padded instead of 1; groups of like length are no more)",
        "fast_dropout": f"{_COMPUTE}.cheap_dropout",
        "pooled_token_only": f"{_COMPUTE}.short_last_layer",
        "revision": "hub.revision",
        "trust_remote_code": "hub.trust_remote_code",
        "subtract_template": "prompt.subtract, beside prompt.template",
    },
    "SentRepModule": {"grad_cache_chunk": f"{_COMPUTE}.rows_at_once", "compile": f"{_COMPUTE}.compile"},
}
"""By class and argument."""


def now_called(owner: str, argument: str) -> str | None:
    """What a former argument of a class is called now, for a message; None where there never was one."""
    found = _FORMER.get(owner, {}).get(argument)
    return found and f"; it is now {found}"

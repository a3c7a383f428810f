"""Options of the models that make pairs; the command line reads them, so nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sentrep import checks

ANSWER_FORMATS = ("json_schema", "json_object", "text")
"""How a server is told to answer in JSON; not every server knows every way."""
_DTYPES = ("auto", "float32", "bfloat16", "float16")
_MOST_REQUESTS = 4096
"""Under way at a time: every one is a connection, and a file that is open."""


@dataclass(frozen=True)
class Generation:
    """How the models translate.

    Raises:
        InputError: a value is out of range.
    """

    beams: int = 4
    """width of the beam search; 1 is greedy. Without effect when sampling."""
    sample: bool = False
    """draw the translations instead of searching for the best: more varied and less faithful."""
    temperature: float = 1.0
    """of the sampling."""
    top_p: float = 1.0
    """of the sampling; 1 draws from the whole distribution."""
    seed: int = 0
    """of the sampling; a batch is drawn from it and the first row of the batch."""
    max_tokens: int = 256
    """longer sentences are left out, as are those above the model's own limit."""
    dtype: str = "auto"
    """float32, bfloat16, float16, or auto: bfloat16 on a GPU that has it, float32 elsewhere."""

    def __post_init__(self) -> None:
        checks.whole("generation", 1, beams=self.beams, max_tokens=self.max_tokens)
        checks.whole("generation", 0, seed=self.seed)
        checks.positive("generation", temperature=self.temperature)
        checks.within("generation", 0, 1, open_below=True, top_p=self.top_p)
        checks.one_of("generation", _DTYPES, dtype=self.dtype)


@dataclass(frozen=True)
class Request:
    """The settings of a request, apart from the text.

    Raises:
        InputError: an unknown answer format, or a number out of range.
    """

    answer_format: str = "json_schema"
    """json_schema, json_object or text: how the server is told to answer in JSON."""
    attempts: int = 2
    """how often to ask when an answer is not the JSON that was asked for."""
    seed: int = 0
    """of the lengths and constructions that are asked for."""
    fields: dict[str, Any] = field(default_factory=dict)
    """further fields of every request as JSON, such as {"temperature": 0.7}."""

    def __post_init__(self) -> None:
        checks.one_of("request", ANSWER_FORMATS, answer_format=self.answer_format)
        checks.whole("request", 1, attempts=self.attempts)
        checks.whole("request", 0, seed=self.seed)


@dataclass(frozen=True)
class Server:
    """How to treat the server.

    Raises:
        InputError: a number out of range.
    """

    timeout: float = 120.0
    """seconds that one try may take."""
    retries: int = 10
    """further tries after 429, 5xx, a timeout or a lost connection; pauses grow, or are as Retry-After says."""
    key_variable: str = "OPENAI_API_KEY"
    """environment variable with the API key; the key is never written anywhere."""
    concurrency: int = 16
    """requests under way at a time."""

    def __post_init__(self) -> None:
        checks.positive("server", timeout=self.timeout)
        checks.whole("server", 0, retries=self.retries)
        checks.whole("server", 1, _MOST_REQUESTS, concurrency=self.concurrency)


@dataclass(frozen=True)
class Price:
    """The price of a million tokens; without one there is no cost to print.

    Examples:
        >>> Price(1.5, 8.0).cost(2_000_000, 500_000), Price().cost(1, 1)
        ('7.00', '')
    """

    input: float | None = None
    """of a million input tokens, to print the cost."""
    output: float | None = None
    """of a million output tokens."""

    def cost(self, input_tokens: int, output_tokens: int) -> str:
        """The cost of so many tokens as text; empty without prices."""
        if self.input is None and self.output is None:
            return ""
        return f"{(input_tokens * (self.input or 0.0) + output_tokens * (self.output or 0.0)) / 1e6:,.2f}"

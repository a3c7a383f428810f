"""A language model behind an OpenAI-compatible address."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sentrep.data.augmentation.prompt import ANSWER_FORMATS, REWRITINGS, Prompt
from sentrep.errors import InputError, did_you_mean
from sentrep.extras import require

_LONGEST_PAUSE = 60
_NO_ADDRESS = "base_url: expected an address such as http://localhost:8000/v1"


class Answer(NamedTuple):
    """What came back for one sentence."""

    texts: tuple[str, ...] | None
    """What the prompt asks for; None when every answer was malformed."""
    requests: int
    """Answers it took."""
    input_tokens: int
    """Over all of them, as the server counts; 0 from a server that does not."""
    output_tokens: int


class NoAnswerError(Exception):
    """The server refused this request, or did not answer in spite of all retries; the message says why."""


@dataclass(frozen=True)
class Request:
    """What a request says, apart from the sentence.

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
        if self.answer_format not in ANSWER_FORMATS:
            raise InputError(
                f"answer_format {self.answer_format!r}: expected {', '.join(ANSWER_FORMATS)}"
                f"{did_you_mean(self.answer_format, ANSWER_FORMATS)}"
            )
        if self.attempts < 1 or self.seed < 0:
            raise InputError(f"attempts {self.attempts}, seed {self.seed}: expected 1 or more, and 0 or more")

    def body(self, prompt: Prompt, sentence: str, row: int) -> dict[str, Any]:
        """The further fields, by which a user may replace any other."""
        body = {"messages": prompt.messages(sentence, row, self.seed), **self.fields}
        how = prompt.response_format(self.answer_format)
        return body if how is None else {**body, "response_format": how}


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

    def __post_init__(self) -> None:
        if not 0 < self.timeout < math.inf or self.retries < 0:
            raise InputError(
                f"timeout {self.timeout}, retries {self.retries}: expected more than 0 seconds, and 0 or more"
            )


class Endpoint:
    """Asks one sentence at a time; use it as an asynchronous context manager.

    The official client does the retries: 429, 5xx, lost connections and timeouts, with exponential back-off up to 8
    seconds, or after the pause of the server's ``Retry-After``. A pause of more than a minute or two, depending on the
    client's version, ends the work instead.

    Args:
        base_url: address of the API, for example ``http://localhost:8000/v1``.
        model: the model's name there.
        request: what to ask.
        server: how long to wait for it, and where its key is.
        prompt: what is asked about every sentence.

    Raises:
        InputError: the package openai is missing, the address is none, or the key is none.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        request: Request | None = None,
        server: Server | None = None,
        prompt: Prompt = REWRITINGS,
    ) -> None:
        require("asking a language model", "paraphrase", "openai")
        import openai

        self._openai, self._model, self._what, self._prompt = openai, model, request or Request(), prompt
        self._server = server = server or Server()
        self.host = _public_address(base_url)
        """The address without user, password and query, where keys may stand."""
        self._key = os.environ.get(server.key_variable, "").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise InputError(
                f"the environment variable {server.key_variable} holds no key: there are other signs than ASCII"
            )
        try:
            self._client = openai.AsyncOpenAI(
                base_url=base_url, api_key=self._key or "none", timeout=server.timeout, max_retries=server.retries
            )
        except Exception as error:  # the client's package for addresses, which has no error of a public base
            raise InputError(f"{_NO_ADDRESS} ({error})") from error

    @property
    def patience(self) -> str:
        """What goes on while nothing is heard."""
        tries = f"{self._server.retries} more times, {self._server.timeout:g} seconds each"
        return f"still trying ({tries}); Ctrl-C ends it, answers are kept"

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()

    async def ask(self, sentence: str, row: int) -> Answer:
        """Ask until an answer is well-formed, at most ``attempts`` times.

        Raises:
            NoAnswerError: for this sentence there is none.
            InputError: there can be none for any: a wrong key, address or model, no money left, or a long pause.
        """
        requests = input_tokens = output_tokens = 0
        texts = None
        while texts is None and requests < self._what.attempts:
            completion = await self._request(self._what.body(self._prompt, sentence, row))
            requests += 1
            input_tokens += _tokens(completion, "prompt_tokens")
            output_tokens += _tokens(completion, "completion_tokens")
            texts = self._prompt.parse(_content(completion))
        return Answer(texts, requests, input_tokens, output_tokens)

    async def _request(self, body: dict[str, Any]) -> Any:
        openai = self._openai
        model, request = body.pop("model", self._model), body.pop("messages")
        try:
            return await self._client.chat.completions.create(model=model, messages=request, extra_body=body)
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            hint = f"{'check' if self._key else 'set'} the environment variable {self._server.key_variable}"
            raise InputError(f"{self.host} refuses access ({self._reason(error)}); {hint}") from None
        except openai.NotFoundError as error:
            raise InputError(
                f"{self.host} knows no such address or no model {self._model!r} ({self._reason(error)}); "
                "check base_url, which often ends in /v1, and model"
            ) from None
        except openai.RateLimitError as error:
            if error.code == "insufficient_quota":
                raise InputError(f"{self.host}: the account has no money left ({self._reason(error)})") from None
            pause = error.response.headers.get("retry-after", "")
            if pause.isdecimal() and int(pause) > _LONGEST_PAUSE:  # the client has observed the short ones
                raise InputError(
                    f"{self.host} asks to wait {pause} seconds; run the same command again then (answers are kept)"
                ) from None
            raise NoAnswerError(self._reason(error)) from None
        except openai.APIError as error:
            raise NoAnswerError(self._reason(error)) from None
        except json.JSONDecodeError:  # a body that calls itself JSON and is none
            return None

    def _reason(self, error: Any) -> str:
        text = " ".join(str(error).split()) or type(error).__name__
        return text.replace(self._key, "***")[:200] if self._key else text[:200]


def _public_address(base_url: str) -> str:
    try:
        address = urlsplit(base_url)
        port = f":{address.port}" if address.port else ""
    except ValueError:
        raise InputError(_NO_ADDRESS) from None
    if address.scheme not in ("http", "https") or not address.hostname:
        raise InputError(_NO_ADDRESS)
    return f"{address.scheme}://{address.hostname}{port}{address.path}"


def _content(completion: Any) -> str | None:
    """The text of an answer, or None where a server sent something else."""
    try:
        return completion.choices[0].message.content
    except (AttributeError, IndexError, TypeError):
        return None


def _tokens(completion: Any, name: str) -> int:
    count = getattr(getattr(completion, "usage", None), name, None)
    return count if isinstance(count, int) else 0

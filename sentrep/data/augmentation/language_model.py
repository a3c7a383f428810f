"""A language model behind an OpenAI-compatible address, asked about every row of a text, many requests at a time."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sentrep import checks
from sentrep.data.augmentation.filters import BLANK, MALFORMED, NO_ANSWER
from sentrep.data.augmentation.model_options import Request, Server
from sentrep.data.augmentation.prompt import Prompt
from sentrep.data.parts import Parts
from sentrep.data.text.corpus import CorpusRow
from sentrep.errors import InputError
from sentrep.extras import require

COUNTS = ("requests", "input_tokens", "output_tokens")
"""The counts of every row."""

_LONGEST_PAUSE = 60
_PATIENCE = 8
_NO_ADDRESS = "base_url: expected an address such as http://localhost:8000/v1"


class Answer(NamedTuple):
    """The answer for one text."""

    fields: dict[str, Any] | None
    """The parsed answer; None if every answer was malformed, or there was none."""
    problem: str = ""
    """Why the server did not answer."""
    requests: int = 0
    """Answers it took."""
    input_tokens: int = 0
    """Over all of them, as the server counts; 0 from a server that does not."""
    output_tokens: int = 0

    def verdict(self, blank: bool) -> str:
        """Why there are no fields, about a text that is blank or not."""
        return BLANK if blank else NO_ANSWER if self.problem else MALFORMED


class LanguageModel:
    """Asks about one text at a time; the official client tries again by itself, with growing pauses.

    Args:
        base_url: address of the API, for example ``http://localhost:8000/v1``.
        model: the model's name there.
        prompt: the question about every text.
        request: the settings of each request.
        server: how long to wait for it, and where its key is.

    Raises:
        InputError: the package openai is missing, the address is none, or the key is none.
    """

    def __init__(
        self, base_url: str, model: str, prompt: Prompt, request: Request | None = None, server: Server | None = None
    ) -> None:
        require("asking a language model", "paraphrase", "openai")
        import openai

        self._openai, self._model, self._prompt = openai, model, prompt
        self._request, self._server = request or Request(), server or Server()
        self.concurrency = self._server.concurrency
        """Requests under way at a time."""
        self.host = _public_address(base_url)
        """The address without user, password and query, where keys may stand."""
        self._key = os.environ.get(self._server.key_variable, "").strip()
        if not self._key.isascii() or not self._key.isprintable():
            raise InputError(
                f"the environment variable {self._server.key_variable} holds no key: there are other signs than ASCII"
            )
        timeout, retries = self._server.timeout, self._server.retries
        try:
            self._client = openai.AsyncOpenAI(
                base_url=base_url, api_key=self._key or "none", timeout=timeout, max_retries=retries
            )
        except Exception as error:  # the client's package for addresses, which has no error of a public base
            raise InputError(f"{_NO_ADDRESS} ({error})") from error

    async def __aenter__(self) -> LanguageModel:
        """Raises `InputError` where nobody listens, without the patience of a request."""
        try:
            await self._client.with_options(max_retries=0).models.list()
        except self._openai.APITimeoutError:
            pass  # slow to list its models
        except self._openai.APIConnectionError as error:
            await self._client.close()
            raise InputError(f"{self.host}: no connection ({error.__cause__ or error}); check base_url") from None
        except (self._openai.OpenAIError, json.JSONDecodeError):
            pass  # somebody is there; not every server lists its models
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()

    async def ask(self, text: str, row: int) -> Answer:
        """Ask until an answer is well-formed, at most ``attempts`` times.

        Raises:
            InputError: there can be no answer for any text: a wrong key, address or model, no money left, a long pause.
        """
        answer = Answer(None)
        how = self._prompt.response_format(self._request.answer_format)
        messages = self._prompt.messages(text, row, self._request.seed)
        body = {"model": self._model, "messages": messages, **self._request.fields, **checks.given(response_format=how)}
        while answer.fields is None and answer.requests < self._request.attempts:
            try:
                completion = await self._complete(body)
            except self._openai.APIError as error:
                return answer._replace(problem=self._reason(error))
            fields = self._prompt.parse(_content(completion))
            tokens = (_tokens(completion, name) for name in ("prompt_tokens", "completion_tokens"))
            counts = [old + new for old, new in zip(answer[2:], (1, *tokens), strict=True)]
            answer = Answer(fields, "", *counts)
        return answer

    async def _complete(self, body: dict[str, Any]) -> Any:
        openai, more = self._openai, dict(body)
        try:
            return await self._client.chat.completions.create(
                model=more.pop("model"), messages=more.pop("messages"), extra_body=more
            )
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
            raise
        except json.JSONDecodeError:  # a body that calls itself JSON and is none
            return None

    def _reason(self, error: Exception) -> str:
        text = " ".join(str(error).split()) or type(error).__name__
        return text.replace(self._key, "***")[:200] if self._key else text[:200]


async def ask_parts(
    parts: Parts,
    rows: Iterable[CorpusRow],
    model: LanguageModel,
    finish: Callable[[CorpusRow, Answer], dict[str, Any]],
    skip_failed: bool,
    advance: Callable[[Answer], None],
) -> None:
    """Request answers for the rows of all missing parts, several parts at a time.

    Args:
        parts: where the answers go.
        rows: of the whole text.
        model: answers the requests.
        finish: maps row and answer to the stored dict.
        skip_failed: whether rows without an answer count as finished, once all others have one.
        advance: called with every answer.

    Raises:
        InputError: no request can succeed, requests stopped succeeding, or rows got no answer. Complete parts are kept.
    """
    concurrency = model.concurrency
    gate, in_a_row, problems = asyncio.Semaphore(concurrency), 0, list[str]()
    lacking: dict[int, list[dict[str, Any]]] = {}

    async def ask(row: CorpusRow) -> Answer:
        nonlocal in_a_row
        if row.blank:
            return Answer(None)
        async with gate:
            answer = await model.ask(row.sentences[0], row.number)
        in_a_row = in_a_row + 1 if answer.problem else 0
        if in_a_row >= concurrency + _PATIENCE:
            raise InputError(
                f"the last {in_a_row} requests got no answer ({answer.problem}); answers are kept in {parts.folder}: "
                "run the same command again when the server answers"
            )
        advance(answer)
        return answer

    left = parts.left(rows)

    async def do_parts() -> None:
        for number, some in left:  # which several coroutines take from in turn
            answers = await asyncio.gather(*map(ask, some))
            finished = [finish(row, answer) for row, answer in zip(some, answers, strict=True)]
            if failed := [answer.problem for answer in answers if answer.problem]:
                problems.extend(failed)
                lacking[number] = finished
            else:
                parts.add(number, finished)

    async with model:
        await asyncio.gather(*(do_parts() for _ in range(concurrency // parts.size + 2)))
    if problems and skip_failed:
        for number, finished in lacking.items():
            parts.add(number, finished)
    elif problems:
        raise InputError(
            f"{len(problems)} of {parts.rows} rows got no answer ({problems[-1]}); the parts without these are kept in "
            f"{parts.folder}: run the same command again to ask once more, or with --skip_failed true to leave them out"
        )


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

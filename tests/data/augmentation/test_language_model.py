"""The client against a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from pathlib import Path

import pytest
from stub_server import Behaviour, Reply, Stub, rewritings, stub_server

from sentrep.data.augmentation.finished_pairs import save_rows, tables
from sentrep.data.augmentation.language_model import Answer, LanguageModel, ask_parts
from sentrep.data.augmentation.model_options import Request, Server
from sentrep.data.augmentation.prompt import Prompt
from sentrep.data.parts import Parts, Text
from sentrep.data.text.corpus import CorpusRow
from sentrep.errors import InputError

pytest.importorskip("openai", reason="paraphrasing needs the package openai")
KEY = "sk-very-secret"
SENTENCE = "it rains."
PROMPT = Prompt("paraphrase")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(stub: Stub, request: Request | None = None, *, timeout: float = 30.0, retries: int = 4) -> Answer:
    async def once() -> Answer:
        async with LanguageModel(stub.url, "some-model", PROMPT, request, Server(timeout, retries)) as model:
            return await model.ask(SENTENCE, 7)

    return asyncio.run(once())


def in_turn(*replies: Reply) -> Behaviour:
    """These replies, then good ones."""
    return lambda sentence, before: replies[before] if before < len(replies) else Reply()


GOOD = rewritings(SENTENCE)


def test_request_and_answer() -> None:
    request = Request(seed=3, fields={"temperature": 0.5, "top_k": 7})
    with stub_server() as stub:
        assert ask(stub, request) == Answer(GOOD, "", 1, 100, 10)
    assert stub.bodies == [
        {
            "model": "some-model",
            "messages": PROMPT.messages(SENTENCE, 7, 3),
            "temperature": 0.5,
            "top_k": 7,
            "response_format": PROMPT.response_format("json_schema"),
        }
    ]
    headers = {name.lower(): value for name, value in stub.headers[0].items()}
    assert headers["authorization"] == f"Bearer {KEY}"


def test_a_server_that_knows_no_answer_format() -> None:
    with stub_server() as stub:
        ask(stub, Request("json_object"))
        ask(stub, Request("text"))
    assert stub.bodies[0]["response_format"] == {"type": "json_object"}
    assert "response_format" not in stub.bodies[1]


@pytest.mark.parametrize(
    "trouble",
    [
        [Reply(500), Reply(503)],
        [Reply(429), Reply(429, headers={"retry-after": "0"})],
        [Reply(drop=True)],
        [Reply(408), Reply(502, body=b"<html>bad gateway</html>", headers={"content-type": "text/html"})],
    ],
)
def test_trouble_of_the_server_is_waited_out(trouble: list[Reply]) -> None:
    with stub_server(in_turn(*trouble)) as stub:
        assert ask(stub) == Answer(GOOD, "", 1, 100, 10)
    assert len(stub.sentences) == len(trouble) + 1


def test_retry_after_is_honoured() -> None:
    with stub_server(in_turn(Reply(429, headers={"retry-after": "2"}))) as stub:
        ask(stub)
    assert stub.times[1] - stub.times[0] >= 2.0  # the client's own first pause would be half a second


def test_a_server_that_times_out() -> None:
    hold = threading.Event()
    with stub_server(in_turn(Reply(hold=hold))) as stub:
        assert ask(stub, timeout=2.0).fields == GOOD
        hold.set()
    assert len(stub.sentences) >= 2


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(500), "status 500"),
        (Reply(400), "status 400"),
        (Reply(422), "status 422"),
        (Reply(429), "status 429"),
        (Reply(drop=True), "Connection error"),
    ],
)
def test_no_answer_says_why(reply: Reply, reason: str) -> None:
    with stub_server(lambda sentence, before: reply) as stub:
        answer = ask(stub, retries=1)
    assert answer.fields is None
    assert reason in answer.problem
    assert len(stub.sentences) == (2 if reply.status in (429, 500) or reply.drop else 1)


BROKEN = [
    Reply(content='{"paraphrase": "In oth'),
    Reply(content="Sorry, I cannot do that."),
    Reply(content=""),
    Reply(body=b'{"choices": []}'),
    Reply(body=b'{"choices": [{"message": {"content": null}}], "usage": {"prompt_tokens": "many"}}'),
    Reply(body=b'{"choices": 3, "usage": null}'),
    Reply(body=b'{"choices": [{"mess'),
    Reply(body=b"<html>hello</html>", headers={"content-type": "text/html"}),
    Reply(body=b"null"),
    Reply(body=b""),
]


@pytest.mark.parametrize("reply", BROKEN)
def test_broken_answers_are_asked_for_again_then_given_up(reply: Reply) -> None:
    with stub_server(in_turn(reply)) as stub:
        answer = ask(stub)
    assert (answer.fields, answer.requests) == (GOOD, 2)
    with stub_server(lambda sentence, before: reply) as stub:
        answer = ask(stub, Request(attempts=3))
    assert (answer.fields, answer.requests) == (None, 3)
    assert len(stub.sentences) == 3


def test_tokens_of_all_attempts_are_counted() -> None:
    with stub_server(in_turn(Reply(content="no JSON"), Reply(content="none", usage=False))) as stub:
        assert ask(stub, Request(attempts=5)) == Answer(GOOD, "", 3, 200, 20)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (
            Reply(401, body=json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()),
            r"refuses access .*bad key \*\*\*",
        ),
        (Reply(403), "refuses access"),
        (Reply(429, headers={"retry-after": "3600"}), "asks to wait 3600 seconds; run the same command again then"),
        (Reply(404), "knows no such address or no model 'some-model'"),
        (
            Reply(429, body=b'{"error": {"message": "pay first", "code": "insufficient_quota"}}'),
            "the account has no money left .*pay first",
        ),
    ],
)
def test_what_no_retry_can_mend_ends_the_work(reply: Reply, message: str) -> None:
    with stub_server(lambda sentence, before: reply) as stub, pytest.raises(InputError, match=message) as caught:
        ask(stub, retries=1)
    assert KEY not in str(caught.value)


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with (
        stub_server(in_turn(Reply(401))) as stub,
        pytest.raises(InputError, match="set the environment variable OPENAI"),
    ):
        ask(stub)


def test_a_key_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "schlüssel")
    with pytest.raises(InputError, match="OPENAI_API_KEY holds no key"):
        LanguageModel("http://localhost/v1", "m", PROMPT)
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")  # as `$(cat file)` does not leave it, but a secret store may
    with stub_server() as stub:
        assert ask(stub).fields == GOOD


def test_the_address_on_record_holds_no_key() -> None:
    model = LanguageModel("https://user:password@example.com:81/v1?key=secret", "m", PROMPT)
    assert model.host == "https://example.com:81/v1"


ROWS = [CorpusRow(number, ("" if number % 10 == 3 else f"sentence number {number}",)) for number in range(50)]


class Model:
    """Answers after a few turns of the event loop, the later ones sooner."""

    concurrency = 4

    def __init__(self) -> None:
        self.asked, self.under_way, self.most_under_way = Counter[int](), 0, 0

    async def __aenter__(self) -> None: ...
    async def __aexit__(self, *error: object) -> None: ...

    async def ask(self, sentence: str, row: int) -> Answer:
        self.asked[row] += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        for _ in range(60 - row):
            await asyncio.sleep(0)
        self.under_way -= 1
        return Answer({"text": sentence.upper()}, "", 1)


def run(folder: Path, model: Model) -> list[str]:
    """The texts of the finished parts."""
    parts = Parts(str(folder), Text.of((row.sentences[0] for row in ROWS), "rows"), 3, ".parquet", save_rows, {})
    finish = lambda row, answer: {"text": (answer.fields or {"text": answer.verdict(row.blank)})["text"]}  # noqa: E731
    asyncio.run(ask_parts(parts, ROWS, model, finish, False, lambda answer: None))  # type: ignore[arg-type]
    return [text for table in tables(parts) for text in table["text"].to_pylist()]


WANTED = [row.sentences[0].upper() or "blank in the input" for row in ROWS]


def test_answers_in_the_order_of_the_rows_and_as_many_requests_as_allowed(tmp_path: Path) -> None:
    model = Model()
    assert run(tmp_path, model) == WANTED
    assert model.most_under_way == 4
    assert set(model.asked.values()) == {1}

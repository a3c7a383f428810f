"""The client against a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from stub_server import Behaviour, Reply, Stub, rewritings, stub_server

from sentrep.data.augmentation.endpoint import Answer, Endpoint, NoAnswerError, Request, Server
from sentrep.data.augmentation.prompt import REWRITINGS, messages
from sentrep.errors import InputError

pytest.importorskip("openai", reason="paraphrasing needs the package openai")
KEY = "sk-very-secret"
SENTENCE = "it rains."


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(stub: Stub, request: Request | None = None, *, timeout: float = 30.0, retries: int = 4) -> Answer:
    async def once() -> Answer:
        async with Endpoint(stub.url, "some-model", request, Server(timeout, retries)) as endpoint:
            return await endpoint.ask(SENTENCE, 7)

    return asyncio.run(once())


def in_turn(*replies: Reply) -> Behaviour:
    """These replies, then good ones."""
    return lambda sentence, before: replies[before] if before < len(replies) else Reply()


GOOD = (rewritings(SENTENCE)["paraphrase"], rewritings(SENTENCE)["contrary"])


def test_request_and_answer() -> None:
    request = Request(seed=3, fields={"temperature": 0.5, "top_k": 7})
    with stub_server() as stub:
        assert ask(stub, request) == Answer(GOOD, 1, 100, 10)
    assert stub.bodies == [
        {
            "model": "some-model",
            "messages": messages(SENTENCE, 7, 3),
            "temperature": 0.5,
            "top_k": 7,
            "response_format": REWRITINGS.response_format("json_schema"),
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
        assert ask(stub) == Answer(GOOD, 1, 100, 10)
    assert len(stub.sentences) == len(trouble) + 1


def test_retry_after_is_honoured() -> None:
    with stub_server(in_turn(Reply(429, headers={"retry-after": "2"}))) as stub:
        ask(stub)
    assert stub.times[1] - stub.times[0] >= 2.0  # the client's own first pause would be half a second


def test_a_server_that_times_out() -> None:
    hold = threading.Event()
    with stub_server(in_turn(Reply(hold=hold))) as stub:
        assert ask(stub, timeout=2.0).texts == GOOD
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
    with stub_server(lambda sentence, before: reply) as stub, pytest.raises(NoAnswerError, match=reason):
        ask(stub, retries=1)
    assert len(stub.sentences) == (2 if reply.status in (429, 500) or reply.drop else 1)


def test_nobody_is_there() -> None:
    with stub_server() as stub:
        pass
    with pytest.raises(NoAnswerError, match="Connection error"):
        ask(stub, retries=0)


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
    assert (answer.texts, answer.requests) == (GOOD, 2)
    with stub_server(lambda sentence, before: reply) as stub:
        answer = ask(stub, Request(attempts=3))
    assert (answer.texts, answer.requests) == (None, 3)
    assert len(stub.sentences) == 3


def test_tokens_of_all_attempts_are_counted() -> None:
    with stub_server(in_turn(Reply(content="no JSON"), Reply(content="none", usage=False))) as stub:
        assert ask(stub, Request(attempts=5)) == Answer(GOOD, 3, 200, 20)


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
        Endpoint("http://localhost/v1", "m")
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")  # as `$(cat file)` does not leave it, but a secret store may
    with stub_server() as stub:
        assert ask(stub).texts == GOOD


def test_the_address_on_record_holds_no_key() -> None:
    endpoint = Endpoint("https://user:password@example.com:81/v1?key=secret", "m")
    assert endpoint.host == "https://example.com:81/v1"

"""A server with OpenAI's interface that misbehaves on demand."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the server answers."""

    status: int = 200
    content: str | None = None
    """Text of the model; None: a paraphrase and a contrary sentence, see `rewritings`."""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Instead of all that, these bytes."""
    hold: threading.Event | None = None
    """Do not answer before this is set."""
    drop: bool = False
    """Close the connection without a word."""
    usage: bool = True


Behaviour = Callable[[str, int], Reply]
"""Sentence, and how often it was asked for before → reply."""


def rewritings(sentence: str) -> dict[str, str]:
    """What the model says when all is well."""
    return {"paraphrase": f"In other words, {sentence}", "contrary": f"It is wrong that {sentence}"}


@dataclass
class Stub:
    """A running server and what it was asked."""

    url: str
    behave: Behaviour
    sentences: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def asked(self) -> Counter[str]:
        """How often for each sentence."""
        return Counter(self.sentences)

    def take(self, body: dict[str, Any], headers: dict[str, str]) -> tuple[str, Reply]:
        """Note a request and decide about it."""
        sentence = json.loads(re.split("\n(?:Sentence|Passage): ", body["messages"][-1]["content"], maxsplit=1)[1])
        with self.lock:
            before = self.sentences.count(sentence)
            self.sentences.append(sentence)
            self.bodies.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
        return sentence, self.behave(sentence, before)


@contextmanager
def stub_server(behave: Behaviour = lambda sentence, before: Reply()) -> Iterator[Stub]:
    """Run the server in a thread."""
    stub = Stub("", behave)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            sentence, reply = stub.take(body, dict(self.headers))
            if reply.hold is not None:
                reply.hold.wait(600)
            if reply.drop:
                self.close_connection = True
                return
            content = encode(sentence, reply)
            try:
                self.send_response(reply.status)
                for name, value in {"content-type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except OSError:
                self.close_connection = True  # the client did not wait

        def log_message(self, *arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    server = Server(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def encode(sentence: str, reply: Reply) -> bytes:
    """The body of a reply."""
    if reply.body is not None:
        return reply.body
    if reply.status != 200:
        return json.dumps({"error": {"message": f"status {reply.status}", "code": None}}).encode()
    content = json.dumps(rewritings(sentence)) if reply.content is None else reply.content
    completion = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "stub",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
    }
    if reply.usage:
        completion["usage"] = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return json.dumps(completion).encode()

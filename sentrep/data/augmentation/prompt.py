"""Prompts of a language model (``prompts.yaml``), and the reading of its answers."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from sentrep.data.text.fingerprints import hash_of


class Prompt:
    """A question about a text, answered by a JSON object of strings, or lists of strings.

    Args:
        name: in ``prompts.yaml``.
        values: of words in its wish that are not drawn.

    Attributes:
        fingerprint: hash of its words.

    Examples:
        >>> prompt = Prompt("questions", count=2)
        >>> prompt.messages("It rains.", 3) == prompt.messages("It rains.", 3) != prompt.messages("It rains.", 5)
        True
        >>> prompt.parse('Here: {"questions": ["Why does it rain?", " Why does\\\\nit rain?", ""]}')
        {'questions': ['Why does it rain?']}
        >>> prompt.parse('{"questions": []}') is prompt.parse("Sorry!") is None
        True
    """

    def __init__(self, name: str, **values: Any) -> None:
        text = files("sentrep.data.augmentation").joinpath("prompts.yaml").read_text(encoding="utf-8")
        self.name, self._values = name, values
        self._words: dict[str, Any] = yaml.safe_load(text)[name]
        self.fingerprint = hash_of(self._words, values)

    def messages(self, text: str, row: int, seed: int = 0) -> list[dict[str, str]]:
        """The request for a text; what varies in it is drawn from (seed, row)."""
        draw = np.random.default_rng((seed, row))
        drawn = {word: draw.choice(choices) for word, choices in self._words["draw"].items()}
        wish = self._words["wish"].format(**drawn, **self._values)
        content = f"{wish}\n\n{self._words['text']}: {json.dumps(text, ensure_ascii=False)}"
        return [{"role": "system", "content": self._words["system"]}, {"role": "user", "content": content}]

    def response_format(self, how: str) -> dict[str, Any] | None:
        """The answer format that a server is told (`model_options.ANSWER_FORMATS`), or None."""
        fields = self._words["answer"]
        schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
        if how == "json_schema":
            return {"type": how, "json_schema": {"name": self.name, "strict": True, "schema": schema}}
        return {"type": how} if how == "json_object" else None

    def parse(self, text: str | None) -> dict[str, Any] | None:
        """The fields of an answer, each string on one line and no line of a list twice; text around it is passed over.

        None for an answer of another form.
        """
        text = text or ""
        try:
            start = text.index("{", max(0, text.rfind("</think>")))
            found = json.loads(text[start : text.rindex("}") + 1])
            fields = {name: _lines(found[name], kind["type"]) for name, kind in self._words["answer"].items()}
            json.dumps(fields, ensure_ascii=False).encode()  # half a surrogate pair is valid JSON and no text
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return fields if all(fields.values()) else None


def _lines(value: Any, kind: str) -> Any:
    if kind == "string":
        return " ".join(value.split())
    if not isinstance(value, list):
        raise TypeError("no list")
    return list(dict.fromkeys(line for line in (" ".join(one.split()) for one in value) if line))

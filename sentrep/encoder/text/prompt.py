"""The prompt that every text is put into."""

from __future__ import annotations

from dataclasses import dataclass

from sentrep import checks


@dataclass(frozen=True)
class Prompt:
    """A template and what becomes of the vector that it has of its own.

    Args:
        template: such as ``"[X]" means [MASK].`` (quotes included); ``[X]`` is the text.
        subtract: take off the vector of the template alone (PromptBERT, §4); costs a pass over a row per length.

    Raises:
        InputError: for a template that is no text.
    """

    template: str
    subtract: bool = False

    def __post_init__(self) -> None:
        checks.text("prompt", template=self.template)
        checks.flag("prompt", subtract=self.subtract)

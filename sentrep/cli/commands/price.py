"""The price of a language model's tokens: options of the command line, so nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass


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

"""Formulas of docstrings as LaTeX for the pages: the docstrings' plain notation is regular enough to be translated."""

from __future__ import annotations

import re

FUNCTIONS = frozenset((
    "exp", "log", "cos", "max", "min", "det", "mean", "softmax", "ReLU", "BCE", "KL", "JS", "Dec", "Aux", "head", "sp",
    "sg", "dropout", "sim", "weight", "scale",
))  # fmt: skip
"""Words that are functions or operators; other words are text."""
KNOWN = frozenset(("exp", "log", "cos", "max", "min", "det"))
"""Functions that LaTeX has."""
SIGNS = {
    "−": "-", "·": r"\cdot ", "⊙": r"\odot ", "∘": r"\circ ", "∗": "*", "←": r"\leftarrow ", "…": r"\ldots ",
    "Σ": r"\sum", "‖": r"\|", "½": r"\tfrac{1}{2}", "″": "''", "′": "'", "≥": r"\ge ", "≠": r"\ne ", "±": r"\pm ",
    "∂": r"\partial ", "ℓ": r"\ell ",
}  # fmt: skip
INDICES = {"⁺": "^{+}", "⁻": "^{-}", "²": "^{2}", "ˣ": "^{x}", "₁": "_{1}", "₂": "_{2}"}
ACCENTS = {"\u0302": "hat", "\u0303": "tilde"}
TOKEN = re.compile(
    r"``?(?P<code>[^`]+)``?"
    r"|_(?P<index>\{[^}]*\}|<?[A-Za-z0-9]+)"
    r"|(?P<words>[A-Za-z]{2,}(?: [A-Za-z]{2,}(?![A-Za-z_(]))*)"
    r"|(?P<accented>\w[\u0302\u0303])"
    r"|√(?P<root>\([^)]*\)|\w+)"
    r"|(?P<sign>.)",
    re.DOTALL,
)


LONGEST = 70
"""Characters of a line above which its parts, which are set apart by blanks, are lines of their own."""


def latex(formula: str) -> str:
    """A formula in the docstrings' notation as one display."""
    lines = []
    for line in filter(None, map(str.strip, formula.replace("ĥ", "h\u0302").splitlines())):
        parts = [_part(part) for part in re.split(r"(?<!log) {2,}", line)]
        lines += parts if len(line) > LONGEST else [r" \quad ".join(parts)]
    return lines[0] if len(lines) == 1 else "\\begin{gathered}\n" + " \\\\\n".join(lines) + "\n\\end{gathered}"


def _part(text: str) -> str:
    """``log`` and two blanks stand before a fraction."""
    found = re.fullmatch(r"(.*log)  (.*?) / (.*?)(,?)", text)
    if not found:
        return _signs(text)
    below = re.fullmatch(r"\( (.*) \)", found[3])
    return rf"{_signs(found[1])} \frac{{{_signs(found[2])}}}{{{_signs(below[1] if below else found[3])}}}{found[4]}"


def _signs(text: str) -> str:
    return "".join(_token(found) for found in TOKEN.finditer(text))


def _token(found: re.Match[str]) -> str:
    """One name, index or sign."""
    kind, token = str(found.lastgroup), str(found[str(found.lastgroup)])
    if kind == "code":
        return rf"\texttt{{{token.rpartition('.')[2]}}}".replace("_", r"\_")
    if kind == "index":
        return f"_{{{_signs(token.strip('{}'))}}}" if token[0] == "{" else f"_{{{token}}}"
    if kind == "words":
        return _words(token)
    if kind == "accented":
        return rf"\{ACCENTS[token[1]]}{{{token[0]}}}"
    if kind == "root":
        return rf"\sqrt{{{_signs(token.strip('()'))}}}"
    return INDICES.get(token) or SIGNS.get(token, token)


def _words(token: str) -> str:
    """Functions by themselves, other words together as text."""
    words = token.split()
    if all(word in FUNCTIONS for word in words):
        return " ".join(rf"\{word} " if word in KNOWN else rf"\operatorname{{{word}}}" for word in words)
    return rf"\;\text{{{token}}}\;"

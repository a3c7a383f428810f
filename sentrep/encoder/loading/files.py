"""Files of a model folder, and the sentence for what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sentrep.errors import InputError, first_line
from sentrep.io.paths import check_inside


def read_json(file: Path, kind: type = dict) -> Any:
    """Content of a JSON file of a model folder, an object unless said otherwise.

    Raises:
        InputError: for a file that is missing, damaged, or holds something else.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: missing or not JSON; the model folder is incomplete") from error
    if not isinstance(content, kind):
        raise InputError(f"{file}: found a JSON {type(content).__name__} where a {kind.__name__} was expected")
    return content


def listed_modules(folder: Path) -> list[tuple[str, str]]:
    """Class and place of each module of a sentence-transformers folder.

    Raises:
        InputError: for a list of modules that is damaged, or leads out of the folder.
    """
    file = folder / "modules.json"
    found = []
    for module in read_json(file, list):
        kind, inner = (module.get("type"), module.get("path", "")) if isinstance(module, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(inner, str):
            raise InputError(f"{file}: expected a type and a path for every module; the model folder is damaged")
        check_inside(inner, file)
        found.append((kind, inner))
    if not found:
        raise InputError(f"{file}: no module in it; the model folder is damaged")
    return found


@contextmanager
def one_sentence(says: str, reason: bool = True) -> Iterator[None]:
    """Turn exceptions of other packages, which have a dozen types for unusable files and values, into one sentence.

    Args:
        says: the sentence.
        reason: whether it ends with the first line of their message.

    Raises:
        InputError: for any other exception.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{says}: {first_line(error)}" if reason else says) from error

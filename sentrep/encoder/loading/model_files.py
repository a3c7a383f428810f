"""Files of a model folder, and the sentences for what cannot be found or read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sentrep.data.text.cells import parse_json
from sentrep.errors import InputError
from sentrep.io.files import write_text
from sentrep.io.paths import writing


def read_json(file: Path, kind: type = dict) -> Any:
    """Content of a JSON file of a model folder, an object unless said otherwise.

    Raises:
        InputError: for a file that is missing, damaged, or holds something else.
    """
    try:
        content = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file}: missing or not JSON; the model folder is incomplete") from error
    except ValueError as error:
        raise InputError(f"{file}: {error}; remove one of the two") from error
    if not isinstance(content, kind):
        raise InputError(f"{file}: found a JSON {type(content).__name__} where a {kind.__name__} was expected")
    return content


def write_json(file: Path, content: Any) -> None:
    """Write what `read_json` reads."""
    with writing(file):
        write_text(file, json.dumps(content, indent=2) + "\n")


def not_found(name: str, local: bool, what: str = "model") -> str:
    """The sentence for a name that led nowhere, or to a folder, ``local``, that holds something else."""
    if local:
        return f"{name}: this folder holds no {what} that transformers can load"
    return (
        f"{name}: no such folder or checkpoint, and the {what} hub did not answer or has no such {what}; "
        "check the spelling, or give the path of a local folder"
    )


@contextmanager
def one_sentence(says: str, reason: bool = True) -> Iterator[None]:
    """Turn what other packages raise, who have a dozen types for files and values that do not fit, into one sentence.

    Args:
        says: the sentence.
        reason: whether it ends with what they say.

    Raises:
        InputError: for any other exception.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{says}: {first_line(error)}" if reason else says) from error


def first_line(error: Exception) -> str:
    """What an exception says, in one line that is not too long."""
    return str(error).strip().splitlines()[0][:250] if str(error).strip() else type(error).__name__

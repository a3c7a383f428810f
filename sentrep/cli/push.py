"""``sentrep push``: a model folder to the Hugging Face hub."""

from __future__ import annotations

import json
import re
from typing import Any

from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

from sentrep.cli.functions import run_function
from sentrep.encoder.loading.folders import SETTINGS_FILE, complete_card, upload
from sentrep.encoder.loading.model_card import CARD
from sentrep.errors import InputError
from sentrep.evaluation.training_report import MODEL
from sentrep.io.harmless import printable
from sentrep.io.paths import expanded, writing


def run(command: str, words: list[str]) -> int:
    """Run the command."""
    run_function(push, command, words)
    return 0


def push(
    folder: str, repo: str, *, license: str | None = None, scores: list[str] | None = None, private: bool = True
) -> None:
    """Upload a model folder to the hub; a repository that is not there is made, for you alone unless told otherwise.

    Its model card (README.md) is completed first: licence, scores, and the name in its snippets. Log in beforehand by
    `hf auth login`, or set the variable HF_TOKEN.

    Args:
        folder: as sentrep fit (runs/NAME/version_0/model) and sentrep export write it.
        repo: OWNER/NAME.
        license: of the model, as apache-2.0, mit or other; needed unless the card has one.
        scores: reports of sentrep evaluate --output (json) whose main scores go into the card.
        private: whether a repository that is made is seen by you alone.
    """
    place = expanded(folder)
    if not (place / SETTINGS_FILE).is_file() or not (place / CARD).is_file():
        inner = place / MODEL
        there = (
            f"; {inner} is one"
            if (inner / SETTINGS_FILE).is_file()
            else "; sentrep export CHECKPOINT FOLDER writes one"
        )
        raise InputError(f"{folder}: no model folder of sentrep{there}")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo, re.ASCII):
        raise InputError(f"{repo}: no name of a repository; expected OWNER/NAME")
    if license is not None and not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", license):
        raise InputError(
            f"--license {license}: expected a name as the hub has it: apache-2.0, mit, cc-by-4.0, other, ..."
        )
    found = [one for file in scores or () for one in _scores(file)]
    with writing(place / CARD):
        complete_card(place, repo, license, found)
    try:
        address = upload(place, repo, private=private)
    except LocalTokenNotFoundError as error:
        raise InputError(f"{repo}: you are not logged in; run `hf auth login`, or set HF_TOKEN") from error
    except (HfHubHTTPError, HFValidationError, ValueError, OSError) as error:
        raise InputError(
            f"{repo}: not uploaded ({_reason(error)}); check the name, your rights and the network"
        ) from error
    print(printable(f"{address} ({'private' if private else 'public'} if it was made now)"))


def _reason(error: Exception) -> str:
    return str(getattr(error, "server_message", None) or error).strip().split("\n")[0][:200] or type(error).__name__


def _scores(file: str) -> list[tuple[str, str, str, float]]:
    """Set, split, main metric and score × 100 of every set in a report."""
    try:
        report: Any = json.loads(expanded(file).read_text(encoding="utf-8"))
        tasks = [(task, list(task).index("dataset")) for task in report["results"]]
        found = [(task["name"], task["split"], *list(task.items())[place + 1]) for task, place in tasks]
        return [(str(name), str(split), str(metric), float(value)) for name, split, metric, value in found]
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{file}: no report of `sentrep evaluate --output FILE.json` ({error})") from error

"""``sentrep doctor``: what the documentation promises of training, checked on this machine and configuration."""

from __future__ import annotations

import copy

from rich.console import Console

from sentrep.cli.building import build
from sentrep.cli.checkpoints import checkpoint_content, checkpoint_model
from sentrep.cli.configuration import Tree, merge, parse_request
from sentrep.cli.errors import UsageError
from sentrep.cli.paper_tables import add_row
from sentrep.cli.sections import build_tree
from sentrep.cli.trainer import prepare_parsing
from sentrep.data import SentRepDataModule
from sentrep.doctor import Subject, diagnose, report
from sentrep.doctor.outcome import failed
from sentrep.evaluation import check_report_path
from sentrep.module import SentRepModule

TINY: Tree = {
    "model": {
        "encoder": {
            "backbone": {
                "model_type": "bert",
                "vocab_size": 2500,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 64,
                "max_position_embeddings": 64,
            },
            "tokenizer": "toy",
            "pooling": "mean",
        },
        "objectives": {
            "simcse": {
                "class_path": "Contrastive",
                "init_args": {"temperature": 0.1, "negatives": {"noise": {"class_path": "GaussianNegatives"}}},
            }
        },
    },
    "data": {"train": "toy"},
}
"""Where no configuration is given."""


def examine(command: str, words: list[str]) -> int:
    """Run the command.

    Raises:
        UsageError: for a wrong flag, key or class.
        InputError: for a report that cannot be written.
    """
    prepare_parsing()
    request = add_row(parse_request(words))
    if request.rest:
        raise UsageError(f"doctor: unexpected '{request.rest[0]}'; write flags as --key value")
    output, overwrite = request.flags.pop("output", None), request.flags.pop("overwrite", "false")
    if overwrite not in ("true", "false"):
        raise UsageError(f"doctor: --overwrite {overwrite}; expected true or false")
    if output is not None:
        check_report_path(output, overwrite=overwrite == "true")
    if not request.files:
        request.tree = merge(copy.deepcopy(TINY), request.tree)
    path = request.get("ckpt_path")
    checkpoint = checkpoint_content(path)
    tree = build_tree("fit", request, checkpoint and checkpoint_model(checkpoint, path))
    for section, kind in {"model": SentRepModule, "data": SentRepDataModule}.items():
        build(kind, section, tree.get(section) or {})
    outcomes = diagnose(_subject(tree), _note)
    found = report(outcomes)
    found.print()
    if output is not None:
        found.write(output)
    return int(bool(failed(outcomes)))


def _subject(tree: Tree) -> Subject:
    seed = tree.get("seed_everything", 42)
    accelerator = (tree.get("trainer") or {}).get("accelerator") or "auto"
    return Subject(tree["model"], tree.get("data") or {}, accelerator, seed if isinstance(seed, int) else 42)


def _note(name: str) -> None:
    Console(stderr=True).print(f"checking {name} ...", style="dim")

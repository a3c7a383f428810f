"""``sentrep doctor``: check the documented promises of training on this machine and configuration."""

from __future__ import annotations

import sys

from sentrep.cli.errors import UsageError

QUICK = ["-c", "quickstart", "--model.objectives.simcse.negatives", "{noise: GaussianNegatives}"]
"""Where no configuration is given: a small model that draws noise, and the toy corpus."""


def doctor(words: list[str], *, output: str | None = None, overwrite: bool = False) -> int:
    """Check that a configuration trains correctly on this machine.

    Without -c FILE and flags of sentrep fit it takes a small model and the toy corpus. The versions must be those that
    sentrep allows, a step must work in fp32 and bf16, two processes must equal one, and a resumed run must equal an
    uninterrupted one.

    Args:
        words: recipes and flags, as of sentrep fit.
        output: also write the report to this file: .json (everything), .md or .csv.
        overwrite: replace an output that is there already.

    Returns:
        The exit status: 0 when all is well, 1 otherwise.
    """
    from sentrep.cli.config.configuration import check_sections, parse_request
    from sentrep.cli.config.paper_tables import add_row

    request = add_row(parse_request(words))
    if not request.files:
        request = parse_request([*QUICK, *words])
    if request.rest:
        raise UsageError(f"doctor: unexpected '{request.rest[0]}'; write flags as --key value")
    check_sections(request)

    from sentrep.cli.config.building import build
    from sentrep.cli.config.sections import build_tree
    from sentrep.cli.runs.checkpoints import checkpoint_content, checkpoint_model
    from sentrep.cli.runs.trainer import prepare_parsing
    from sentrep.data import SentRepDataModule
    from sentrep.doctor import Subject, diagnose, report
    from sentrep.doctor.outcome import failed
    from sentrep.evaluation import check_report_path
    from sentrep.module import SentRepModule

    prepare_parsing()
    if output is not None:
        check_report_path(output, overwrite=overwrite)
    checkpoint = checkpoint_content(path := request.get("ckpt_path"))
    tree = build_tree("fit", request, checkpoint and checkpoint_model(checkpoint, path))
    for section, kind in {"model": SentRepModule, "data": SentRepDataModule}.items():
        build(kind, section, tree.get(section) or {})
    seed = tree.get("seed_everything", 42)
    accelerator = (tree.get("trainer") or {}).get("accelerator") or "auto"
    subject = Subject(tree["model"], tree.get("data") or {}, accelerator, seed if isinstance(seed, int) else 42)
    outcomes = diagnose(subject, lambda name: print(f"checking {name} ...", file=sys.stderr))
    found = report(outcomes)
    found.print()
    if output is not None:
        found.write(output)
    return int(bool(failed(outcomes)))

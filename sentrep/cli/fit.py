"""``fit``, ``validate``, ``test``, ``predict``, ``quickstart`` and ``doctor``, until PyTorch is needed."""

from __future__ import annotations

from sentrep.cli.configuration import Request, check_sections, parse_request
from sentrep.cli.errors import UsageError
from sentrep.cli.functions import load
from sentrep.cli.paper_tables import add_row
from sentrep.cli.recipes import shipped

QUICKSTART = """\
usage: sentrep quickstart [any flag of sentrep fit]

Train a small BERT with random weights on the embedded toy corpus, score it
and export it: under a minute on two CPU cores, nothing is downloaded. It is
the recipe 'quickstart'; the run goes to runs/quickstart."""

DOCTOR = """\
usage: sentrep doctor [-c CONFIG] [any flag of sentrep fit] [--output REPORT.json|REPORT.md|REPORT.csv]
[--overwrite true]

Check on this machine that training does what it should with a configuration (default: a tiny model, the toy corpus):
the versions are those that sentrep allows, a step works in fp32 and bf16, two processes equal one, and a resumed run
equals an uninterrupted one.
Exit status: 0 when all is well, 1 otherwise."""

FIT = """\
usage: sentrep {command} -c RECIPE [-c FILE ...] [--KEY VALUE ...]

options:
  -c FILE, --config FILE
        a recipe's name or a configuration file; several make one run, the
        later laid over the earlier (compare trains each -c by itself)
  --KEY VALUE
        a setting by its path through the configuration, which wins over the
        files: --model.objectives.simcse.temperature 0.03, --data.train FILE,
        --trainer.max_steps 100, --checkpoint.monitor val/sts
  --table FILE --row NAME
        a row of a paper's table, below all files
  --ckpt_path FILE
        the checkpoint to go on from or to score; last: the newest intact one
        of the newest run of this name
  --allow-changes
        of fit: go on with settings that differ from the checkpoint's
  --trust-plugins
        let the checkpoint name classes that are not sentrep's
  --sts_folder FOLDER
        short for --data.sts_folder: the SentEval data
  --seed_everything SEED
        of the run (default: 42)
  --print_config
        print the whole resulting configuration and stop
  --KEY.help CLASS
        the arguments of a class that may stand there, as
        --checkpoint.help ModelCheckpoint

sections:
  model       encoder, head, objectives, weights, views, optimizer, scheduler
              (SentRepModule)
  data        train, columns, val, test, batch_size, ... (SentRepDataModule)
  trainer     max_steps, devices, precision, ... (lightning.Trainer)
  checkpoint, progress, collapse, guard, report
              callbacks; null removes one

'sentrep recipes show NAME' prints a recipe."""

ALLOW = ("--allow-changes", "--allow_changes")


def train_or_score(command: str, words: list[str]) -> int:
    """Run fit, validate, test or predict with the rest of the command line, and return the exit status.

    Raises:
        UsageError: for a wrong flag, key, class or type.
        InputError: for bad data, from wherever it is found.
    """
    if not {"-h", "--help"}.isdisjoint(words):
        print(FIT.format(command=command))
        return 0
    request = add_row(parse_request([word for word in words if word not in ALLOW]))
    _refuse_nothing(command, request)
    check_sections(request)
    allow_changes = any(word in ALLOW for word in words)
    status: int = load("sentrep.cli.trainer").launch(command, request, allow_changes)
    return status


def quickstart(command: str, words: list[str]) -> int:
    """Run ``fit`` with the recipe ``quickstart``."""
    return train_or_score("fit", ["--config", str(shipped()["quickstart"]), *words])


def doctor(command: str, words: list[str]) -> int:
    """Run ``doctor``, whose words are those of ``fit`` and ``--output``."""
    request = parse_request(words)
    own = ("output", "overwrite", "table", "row")
    request.flags = {key: value for key, value in request.flags.items() if key not in own}
    check_sections(request)
    status: int = load("sentrep.cli.doctor").examine(command, words)
    return status


def _refuse_nothing(command: str, request: Request) -> None:
    """Answer a command without a recipe with the one that was probably wanted."""
    if request.files or request.rest or any(key.startswith(("model", "ckpt_path")) for key in request.flags):
        return
    if command == "fit":
        raise UsageError(
            "fit: name a recipe, as in: sentrep fit -c simcse/minilm --data.train FILE; 'sentrep recipes' lists them, "
            "and 'sentrep quickstart' needs nothing"
        )
    raise UsageError(f"{command}: name a checkpoint, as in: sentrep {command} --ckpt_path best.ckpt -c RECIPE")

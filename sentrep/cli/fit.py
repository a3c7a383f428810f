"""``fit``, ``validate``, ``test``, ``predict`` and ``quickstart``, and their words, until PyTorch is needed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence

from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import Tree, read_file
from sentrep.errors import did_you_mean

Pairs = list[tuple[str, str | None]]
"""``--key value`` of each option, in order; None for an option without a value."""

SECTIONS = (
    *("model", "data", "trainer", "checkpoint", "collapse", "guard", "report"),
    *("seed_everything", "ckpt_path", "weights_only", "verbose", "return_predictions"),
)
"""The top-level keys of a configuration."""
_HOMES = {
    **dict.fromkeys(("train", "columns", "batch_size", "val", "test"), "data"),
    **dict.fromkeys(("max_steps", "max_epochs", "val_check_interval", "devices", "precision"), "trainer"),
    **{"lr": "model.optimizer", "objectives": "model", "encoder": "model", "backbone": "model.encoder"},
}
"""The sections of keys that are often written without their section."""
OF_SEEDS = ("seeds", "variant", "jobs")
"""Options of ``fit --seeds`` alone."""
_SWITCHES = ("print_config", "trust_plugins", "allow_changes")
_OWN = ("table", "row", "ckpt_path")


def quickstart(words: list[str]) -> int:
    """Train, score and export a small encoder on the embedded toy corpus.

    usage: sentrep quickstart [any flag of sentrep fit]

    It is a small BERT with random weights: under a minute on two CPU cores, and
    nothing is downloaded. It is the recipe 'quickstart'; the run goes to
    runs/quickstart.
    """
    return fit(["--config", "quickstart", *words])


def fit(words: list[str]) -> int:
    """Train an encoder by a recipe or a configuration file.

    usage: sentrep fit -c RECIPE [-c FILE ...] [--KEY VALUE ...]

    options:
      -c FILE, --config FILE
            a recipe's name or a configuration file; several make one run, later
            files override earlier ones
      --KEY VALUE
            a setting by its path through the configuration, which overrides the
            files: --model.objectives.simcse.temperature 0.03, --data.train FILE,
            --trainer.max_steps 100, --checkpoint.monitor val/sts
      --table FILE --row NAME
            a row of a paper's table, which all files override
      --seeds N, --seeds SEED,SEED,...
            train and test under so many seeds (the thesis's five come first), or
            under these, each run in its own process and folder, and compare;
            finished runs are kept. With --table all its rows, or --row A,B
      --variant NAME='FLAGS'
            of --seeds: the recipe once more with these flags; may be repeated
      --jobs N
            of --seeds: runs at the same time (default: 1)
      --ckpt_path FILE
            the checkpoint to resume from or to score; last: the newest one of the
            newest run of this name
      --allow-changes
            of fit: resume with settings that differ from the checkpoint's
      --trust-plugins
            allow foreign classes in the checkpoint
      --sts_folder FOLDER
            short for --data.sts_folder: the SentEval data
      --seed_everything SEED
            of the run (default: 42)
      --print_config
            print the whole resulting configuration and stop

    sections:
      model       encoder, head, objectives, weights, views, optimizer, scheduler
                  (SentRepModule)
      data        train, columns, val, test, batch_size, ... (SentRepDataModule)
      trainer     max_steps, devices, precision, ... (lightning.Trainer)
      checkpoint, collapse, guard, report
                  callbacks; null removes one

    'sentrep recipes show NAME' prints a recipe. All keys and their defaults:
    https://sentrep.github.io/sentrep/keys.html
    """
    return _run("fit", words)


def validate(words: list[str]) -> int:
    """Score a checkpoint on the validation sets (data.val).

    usage: sentrep validate --ckpt_path FILE [any option of sentrep fit]
    """
    return _run("validate", words)


def test(words: list[str]) -> int:
    """Score a checkpoint on the test sets (data.test).

    usage: sentrep test --ckpt_path FILE [any option of sentrep fit]
    """
    return _run("test", words)


def predict(words: list[str]) -> int:
    """Embed data.predict with a checkpoint, into predictions.npy.

    usage: sentrep predict --ckpt_path FILE [any option of sentrep fit]
    """
    return _run("predict", words)


def _run(command: str, words: list[str]) -> int:
    """Run the command.

    Raises:
        UsageError: for a wrong flag, key, class or type.
        InputError: for bad data, from wherever it is found.
    """
    pairs = [*split(words)]
    given = {key for key, _ in pairs}
    if not given.isdisjoint(OF_SEEDS):
        if command != "fit" or "seeds" not in given:
            raise UsageError(f"{command}: --variant and --jobs belong to sentrep fit --seeds")
        from sentrep.cli.seeds import train

        return train(pairs)
    layers, flags, own = sort_words(pairs)
    if not (layers or "ckpt_path" in own or any(key.startswith("model") for key in given)):
        what = "-c simcse/minilm --data.train FILE" if command == "fit" else "--ckpt_path best.ckpt -c RECIPE"
        raise UsageError(f"{command}: name what to run: sentrep {command} {what}; 'sentrep recipes' lists the recipes")
    from sentrep.cli.run import launch
    from sentrep.cli.run_folder import is_first

    status = launch(command, layers, flags, own)
    if status and command == "fit" and is_first():
        again = [word for key, value in pairs if key != "ckpt_path" for word in (f"--{key}", value) if word is not None]
        print(f"sentrep: resume: sentrep fit {shlex.join(again)} --ckpt_path last", file=sys.stderr)
    return status


def split(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """``--key value``, ``--key=value`` and ``-c file`` as `Pairs`.

    Raises:
        UsageError: for a word that is no option.
    """
    waiting = [*reversed(words)]
    while waiting:
        word = waiting.pop()
        if word.startswith("-c"):
            word = f"--config={word[2:].removeprefix('=')}" if word[2:] else "--config"
        if not word.startswith("--"):
            raise UsageError(f"unexpected word '{word}'; options are written --key value or --key=value")
        key, equals, value = word[2:].partition("=")
        if equals:
            yield key, value
        else:
            yield key, waiting.pop() if waiting and not waiting[-1].startswith(("--", "-c")) else None


def sort_words(pairs: Iterable[tuple[str, str | None]]) -> tuple[list[tuple[str, Tree]], list[tuple[str, str]], Tree]:
    """The layers of a run (name and tree of each file, the lowest first), its flags, and the command's own options.

    Raises:
        UsageError: for a file that is no configuration, a flag without a value, or a section that no run has.
    """
    layers: list[tuple[str, Tree]] = []
    flags: list[tuple[str, str]] = []
    own: Tree = {}
    for key, value in pairs:
        name = key if "." in key else key.replace("-", "_")
        if name in _SWITCHES:
            own[name] = value in (None, "true")
        elif value is None:
            raise UsageError(f"--{key} needs a value")
        elif name == "config":
            layers.append(read_file(value))
        elif name in _OWN:
            own[name] = value
        else:
            flags.append(("data.sts_folder" if name == "sts_folder" else name, value))
    if "table" in own:
        from sentrep.cli.tables import row_of

        layers.insert(0, row_of(own["table"], own.get("row")))
    elif "row" in own:
        raise UsageError(f"--row {own['row']} needs its file: --table FILE")
    for place, tree in [*layers, ("", dict(flags))]:
        for section in (str(key).partition(".")[0] for key in tree):
            if section not in SECTIONS:
                where = f"{place}: " if place else ""
                home = _HOMES.get(section)
                hint = f"; did you mean '{home}.{section}'?" if home else did_you_mean(section, SECTIONS)
                raise UsageError(f"{where}unknown key '{section}'{hint}")
    return layers, flags, own

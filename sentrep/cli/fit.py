"""``fit``, ``validate``, ``test``, ``predict`` and ``quickstart``, until PyTorch is needed."""

from __future__ import annotations

import shlex
import sys

from sentrep.cli.errors import UsageError
from sentrep.cli.words import OF_SEEDS, sort_words, split


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
            train and test under so many seeds (Park 2023's five come first), or
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

"""``fit``, ``validate``, ``test``, ``predict`` and ``quickstart``, until PyTorch is needed."""

from __future__ import annotations

from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import Tree, read, split
from sentrep.cli.recipes import locate, shipped
from sentrep.errors import did_you_mean


def quickstart(words: list[str]) -> int:
    """Train, score and export a small encoder on the embedded toy corpus.

    usage: sentrep quickstart [any flag of sentrep fit]

    It is a small BERT with random weights: under a minute on two CPU cores, and
    nothing is downloaded. It is the recipe 'quickstart'; the run goes to
    runs/quickstart.
    """
    return fit(["--config", str(shipped()["quickstart"]), *words])


def fit(words: list[str]) -> int:
    """Train an encoder by a recipe or a configuration file.

    usage: sentrep fit -c RECIPE [-c FILE ...] [--KEY VALUE ...]

    options:
      -c FILE, --config FILE
            a recipe's name or a configuration file; several make one run, later
            files override earlier ones (compare trains each -c separately)
      --KEY VALUE
            a setting by its path through the configuration, which overrides the
            files: --model.objectives.simcse.temperature 0.03, --data.train FILE,
            --trainer.max_steps 100, --checkpoint.monitor val/sts
      --table FILE --row NAME
            a row of a paper's table, which all files override
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
      --KEY.help CLASS
            the arguments of a possible class of this key, for example
            --checkpoint.help ModelCheckpoint

    sections:
      model       encoder, head, objectives, weights, views, optimizer, scheduler
                  (SentRepModule)
      data        train, columns, val, test, batch_size, ... (SentRepDataModule)
      trainer     max_steps, devices, precision, ... (lightning.Trainer)
      checkpoint, collapse, guard, report
                  callbacks; null removes one

    'sentrep recipes show NAME' prints a recipe.
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


_SWITCHES = ("print_config", "trust_plugins", "allow_changes")
_OWN = ("table", "row", "ckpt_path")
SECTIONS = (
    *("model", "data", "trainer", "checkpoint", "collapse", "guard", "report"),
    *("seed_everything", "ckpt_path", "weights_only", "verbose", "return_predictions"),
)
"""The top-level keys of a configuration."""


def _run(command: str, words: list[str]) -> int:
    """Run the command.

    Raises:
        UsageError: for a wrong flag, key, class or type.
        InputError: for bad data, from wherever it is found.
    """
    layers, flags, own = sort_words(words)
    if not (layers or "ckpt_path" in own or any(key.startswith("model") or key.endswith(".help") for key, _ in flags)):
        what = "-c simcse/minilm --data.train FILE" if command == "fit" else "--ckpt_path best.ckpt -c RECIPE"
        raise UsageError(f"{command}: name what to run: sentrep {command} {what}; 'sentrep recipes' lists the recipes")

    from sentrep.cli.run import launch

    return launch(command, layers, flags, own)


def sort_words(words: list[str]) -> tuple[list[tuple[str, Tree]], list[tuple[str, str]], Tree]:
    """The words of a run as layers (name and tree of each file, the lowest first), flags, and the command's own.

    Raises:
        UsageError: for a file that is no configuration, a flag without a value, or a section that no run has.
    """
    layers: list[tuple[str, Tree]] = []
    flags: list[tuple[str, str]] = []
    own: Tree = {}
    for key, value in split(words):
        name = key if "." in key else key.replace("-", "_")
        if name in _SWITCHES and value in (None, "true"):
            own[name] = True
        elif value is None:
            raise UsageError(f"--{key} needs a value")
        elif name == "config":
            layers.append((locate(value), read(value)))
        elif name in _OWN:
            own[name] = value
        else:
            flags.append(("data.sts_folder" if name == "sts_folder" else name, value))
    if "row" in own and "table" not in own:
        raise UsageError(f"--row {own['row']} needs the file that it stands in: --table FILE")
    if "table" in own:
        from sentrep.cli.tables import row_of

        layers.insert(0, row_of(own["table"], own.get("row")))
    for place, key in [
        *((f"{name}: ", key) for name, tree in layers for key in tree),
        *(("", key) for key, _ in flags),
    ]:
        section = str(key).partition(".")[0]
        if section not in SECTIONS:
            raise UsageError(f"{place}unknown key '{section}'{did_you_mean(section, SECTIONS)}")
    return layers, flags, own

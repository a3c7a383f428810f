"""The words of ``fit`` and its neighbours: files, flags, and the command's own options."""

from __future__ import annotations

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

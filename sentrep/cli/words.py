"""The words of a run: files, flags, and the command's own options."""

from __future__ import annotations

from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import Tree, read, split
from sentrep.cli.recipes import locate
from sentrep.errors import did_you_mean

_SWITCHES = ("print_config", "trust_plugins", "allow_changes")
_OWN = ("table", "row", "ckpt_path")
SECTIONS = (
    *("model", "data", "trainer", "checkpoint", "collapse", "guard", "report"),
    *("seed_everything", "ckpt_path", "weights_only", "verbose", "return_predictions"),
)
"""The top-level keys of a configuration."""


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
        raise UsageError(f"--row {own['row']} needs its file: --table FILE")
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

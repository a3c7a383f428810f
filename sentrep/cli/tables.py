"""A table of a paper as one file: a base recipe, named rows with what each changes, and the published numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sentrep.cli.errors import UsageError
from sentrep.cli.recipe import Tree, merged, nested, read, read_file
from sentrep.errors import did_you_mean

if TYPE_CHECKING:
    from sentrep.evaluation.published import Published

Printed = tuple[float, float | None]
"""Mean and standard deviation."""
LABEL = re.compile(r"\w[\w.+-]{0,99}")
"""The name of a row or variant, which is also the name of a folder within the folder of the runs."""


@dataclass(frozen=True)
class Row:
    """One row: a whole configuration, or only the published numbers."""

    base: str | None = field(default=None, compare=False)
    """The recipe that it changes."""
    change: dict[str, Any] = field(default_factory=dict)
    """Dotted keys as flags have them, and values."""
    published: Printed | None = None
    """None if the paper prints no number."""
    sets: dict[str, Printed] = field(default_factory=dict)
    """The same of single sets, by name."""
    reading: Literal["paper", "released"] = "paper"
    """Whether the settings are the ``paper``'s or the ``released`` code's."""
    untrained: bool = False
    """Whether the encoder is scored as it is."""
    absent: str | None = None
    """Why there is nothing to run."""
    tree: Tree = field(default_factory=dict)
    """The whole configuration, not in the file; empty for a row that is absent."""


@dataclass(frozen=True)
class Table:
    """Rows in the paper's order."""

    file: str
    rows: dict[str, Row]
    title: str = ""
    base: str | None = None
    """The recipe that the rows change which name no other."""
    metric: str = ""
    """The metric of the published numbers."""
    baseline: str | None = None
    """The row that the others are compared with, where the file names one."""

    @property
    def first(self) -> str:
        """The row that the others are compared with: `baseline`, or else the first of those that are trained."""
        here = [name for name, row in self.rows.items() if row.absent is None]
        trained = [name for name in here if not self.rows[name].untrained]
        return self.baseline if self.baseline in here else [*trained, *here][0]

    def only(self, names: Iterable[str] | None) -> Table:
        """The rows of these names, in the paper's order; None takes all.

        Raises:
            UsageError: there is no such row.
        """
        wanted = self.rows.keys() if names is None else set(names)
        for name in sorted(wanted - self.rows.keys()):
            raise UsageError(f"{self.file} has no row '{name}'{did_you_mean(name, self.rows)}; it has {self.names}")
        return replace(self, rows={name: row for name, row in self.rows.items() if name in wanted})

    @property
    def names(self) -> str:
        """The names of all rows, for messages."""
        return ", ".join(self.rows)


def published(file: str, names: Iterable[str]) -> Published:
    """The published numbers of the rows of these names; of all rows, where all that can run are among them."""
    from sentrep.evaluation.published import Published

    table = read_table(file)
    here = [name for name in names if name in table.rows]
    if not all(name in here for name, row in table.rows.items() if row.absent is None):
        table = table.only(here)
    first = table.only(here).first
    return Published(
        table.title,
        table.metric,
        {name: row.published for name, row in table.rows.items()},
        {name: row.sets for name, row in table.rows.items()},
        [name for name, row in table.rows.items() if row.untrained],
        first,
    )


def row_of(file: str, name: str | None) -> tuple[str, Tree]:
    """The layer of ``--table FILE --row NAME``, which lies below all files: its name and its tree.

    Raises:
        UsageError: no row is named, the table is not in order, or the row is not there or has nothing to train.
    """
    table = read_table(file)
    if name is None:
        raise UsageError(f"--table {file} needs --row NAME; it has {table.names}")
    row = table.only([name]).rows[name]
    if row.absent is not None:
        raise UsageError(f"{file}, row {name} cannot be run: {row.absent}")
    return f"{table.file}, row {name}", row.tree


def read_table(file: str) -> Table:
    """Read a table and the recipes that its rows are built on.

    Args:
        file: YAML with ``title`` and ``metric`` (texts), ``base`` (a shipped recipe, or one beside the table),
            ``baseline`` (the row for comparisons, by default the first trained row) and ``rows``: by name, ``change``
            (values by the dotted keys of flags), ``published`` (``75.1`` or ``74.80 ± 1.12``), ``sets`` (published
            numbers of single sets, by name), its own ``base``, and ``reading: released`` if the row follows the
            authors' code instead of the paper. ``untrained: true`` is the untrained encoder, and ``absent``, a
            sentence, a row that cannot run.

    Raises:
        UsageError: names the file, the row and the key that is wrong.
    """
    name, content = read_file(file)
    rows = content.pop("rows", None)
    if not isinstance(rows, dict) or not rows:
        raise UsageError(f"{name}: expected rows by name, as 'rows: {{sam: {{published: 73.71, change: ...}}}}'")
    try:
        table = Table(**{"title": Path(name).stem, **content, "file": name, "rows": {}})
    except TypeError as error:
        raise UsageError(f"{name}: {error}") from None
    bases: dict[str, Tree] = {}
    for row, settings in rows.items():
        if not LABEL.fullmatch(str(row)):
            raise UsageError(f"{name}, row {row}: a name has letters, digits, dots, hyphens and underscores")
        try:
            table.rows[row] = _row({"base": table.base, **(settings or {})}, Path(name).parent, bases)
        except (TypeError, ValueError) as error:
            raise UsageError(f"{name}, row {row}: {error}") from None
    if table.baseline is not None and table.first != table.baseline:
        raise UsageError(f"{name}: baseline is {table.baseline!r}; name one of the rows that are not absent")
    return table


def _row(settings: Tree, folder: Path, bases: dict[str, Tree]) -> Row:
    """One row; the recipes that it is built on are read once."""
    if settings.get("published") is not None:
        settings["published"] = _printed(settings["published"])
    settings["sets"] = {key: _printed(value) for key, value in settings.get("sets", {}).items()}
    row = Row(**settings)
    if row.absent is not None:
        return row
    base = str(row.base)
    if base not in bases:
        bases[base] = read(str(folder / base) if (folder / base).exists() else base)
    tree = merged([bases[base], *(nested(key, value) for key, value in row.change.items())])
    objectives = tree.get("model", {}).get("objectives")
    if isinstance(objectives, dict):  # a row is a whole recipe: null is not there at all
        tree["model"]["objectives"] = {key: value for key, value in objectives.items() if value is not None}
    return replace(row, tree=tree)


def _printed(value: float | str) -> Printed:
    """The numbers of ``75.1`` or ``74.80 ± 1.12``."""
    mean, _, deviation = str(value).partition(" ± ")
    return float(mean), float(deviation) if deviation else None

"""A table of a paper as one file: a base recipe, named rows with what each changes, and the published numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sentrep import checks
from sentrep.cli.configuration import Request, Tree, assigned, merge, read_config
from sentrep.cli.errors import UsageError
from sentrep.config import flat
from sentrep.errors import did_you_mean
from sentrep.io.files import write_text
from sentrep.io.paths import expanded

_KEYS = ("title", "base", "metric", "seeds", "baseline", "rows")
_ROW_KEYS = ("base", "change", "published", "sets", "reading", "untrained", "absent")
_READINGS = ("paper", "released")
_UNTRAINED = (False, True, "whitened")
_NUMBER = r"\d{1,9}(?:\.\d+)?"


@dataclass(frozen=True)
class Row:
    """One row: a whole configuration, or only what the paper printed."""

    tree: Tree
    """Empty for a row that is absent."""
    published: tuple[float, float | None] | None
    """Mean and standard deviation; None for what the paper does not print."""
    sets: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    """The same of single sets, by name."""
    reading: str = "paper"
    """Whose settings these are where the two differ: the ``paper``'s, or those of the authors' ``released`` code."""
    untrained: bool | str = False
    """Whether the encoder is scored as it is; ``whitened``: after a whitening on the training text."""
    absent: str | None = None
    """Why there is nothing to run."""
    reading_of: str | None = None
    """The paper's row that a reading of released code is another reading of."""


@dataclass(frozen=True)
class Table:
    """Rows in the paper's order."""

    file: str
    title: str
    metric: str
    """What the published numbers are."""
    rows: dict[str, Row]
    named_baseline: str | None = None
    """The row that the others are compared with, where the file names one."""
    seeds: int | None = None
    """The number of seeds behind each published mean ± standard deviation."""

    @property
    def baseline(self) -> str:
        """The row that the others are compared with: the one named, or else the first of those that are trained."""
        here = [name for name, row in self.rows.items() if row.absent is None]
        trained = [name for name in here if not self.rows[name].untrained]
        return self.named_baseline if self.named_baseline in here else [*trained, *here][0]

    def only(self, names: Iterable[str]) -> Table:
        """The rows of these names, in the paper's order.

        Raises:
            UsageError: there is no such row.
        """
        wanted = set(names)
        for name in sorted(wanted - self.rows.keys()):
            raise UsageError(f"{self.file} has no row '{name}'{did_you_mean(name, self.rows)}; {self._listing()}")
        return replace(self, rows={name: row for name, row in self.rows.items() if name in wanted})

    def adapt(self, settings: Tree) -> Table:
        """The table with other values wherever a row has a key that ends so.

        Args:
            settings: ends of keys as flags have them, and values: ``lr`` is the learning rate of the optimiser, also
                of one inside SAM; ``weighting.model`` the frozen model of the rows that have a weighting.

        Raises:
            UsageError: no row has such a key.
        """
        rows = dict(self.rows)
        for end, value in settings.items():
            keys = [(name, key) for name, row in rows.items() for key in flat(row.tree)]
            found = [(name, key) for name, key in keys if f".{key}".endswith(f".{end}")]
            if not found:
                raise UsageError(f"{self.file}: no row has a key that ends with '{end}' (--adapt)")
            for name, key in found:
                rows[name] = replace(rows[name], tree=assigned(rows[name].tree, key, value))
        return replace(self, rows=rows)

    def recipes(self, folder: Path) -> dict[Path, str]:
        """A recipe for each row that is not absent: the file in the folder, and its content."""
        trees = {name: row.tree for name, row in self.rows.items() if row.absent is None}
        # JSON is YAML in which every text is in quotation marks
        return {folder / f"{name}.yaml": json.dumps(tree, indent=1, ensure_ascii=False) for name, tree in trees.items()}

    def _listing(self) -> str:
        return f"its rows are {', '.join(self.rows)}"


def add_row(request: Request) -> Request:
    """Put the row that ``--table FILE --row NAME`` names below all files; both flags are then gone.

    Raises:
        UsageError: for one flag without the other, a table that is not in order, a row that it does not have or that
            has nothing to train.
    """
    file, name = request.flags.pop("table", None), request.flags.pop("row", None)
    if file is None:
        if name is not None:
            raise UsageError(f"--row {name} needs the file that it stands in: --table FILE")
        return request
    table = read_table(file)
    if name is None:
        raise UsageError(f"--table {file} needs --row NAME; {table._listing()}")
    row = table.only([name]).rows[name]
    if row.absent is not None:
        raise UsageError(f"{file}, row {name} cannot be run: {row.absent}")
    if row.untrained:
        raise UsageError(f"{file}, row {name} trains nothing; it is scored by: compare --table {file} --rows {name}")
    request.row = name
    request.files.insert(0, file)
    request.sources.insert(0, (f"{file}, row {name}", row.tree))
    request.tree = {}
    for _, content in request.sources:
        request.tree = merge(request.tree, content)
    return request


def write_recipes(recipes: dict[Path, str], done: Collection[str]) -> None:
    """Write the recipes.

    Args:
        recipes: content by file.
        done: names of the rows that have results, whose files must not change.

    Raises:
        UsageError: a file is there with other content, of another table or before a change; nothing is written.
    """
    for path, content in recipes.items():
        if path.stem in done and path.exists() and path.read_text(encoding="utf-8", errors="replace") != content:
            raise UsageError(f"compare: {path} is of a row with other settings; choose another --output, or delete it")
    for path, content in recipes.items():
        write_text(path, content)


def read_table(file: str) -> Table:
    """Read a table and the recipes that its rows are built on.

    Args:
        file: YAML with ``title`` and ``metric`` (texts), ``base`` (a recipe beside the table, or a shipped one),
            ``baseline`` (the row that others are compared with, by default the first that is trained), ``seeds`` (how
            many each published ``±`` is over) and ``rows``: by name, ``change`` (dotted keys as flags have them, and
            values), ``published`` (``75.1`` or ``74.80 ± 1.12``), ``sets`` (published numbers of single sets, by name),
            a ``base`` of its own, and ``reading: released`` where the row is what the authors' code does and not what
            the paper says; it stands below the paper's row. ``untrained: true`` stands for the encoder as it is,
            ``untrained: whitened`` for one with a whitening, and ``absent``, a sentence, for a row that cannot be run.

    Raises:
        UsageError: names the file, the row and the key that is wrong.
    """
    name, content = read_config(file)
    _check_keys(content, _KEYS, name)
    rows = content.get("rows")
    if not isinstance(rows, dict) or not rows:
        raise UsageError(f"{name}: expected rows by name, as 'rows: {{sam: {{published: 73.71, change: ...}}}}'")
    texts = {key: content.get(key, "") for key in ("title", "metric")}
    for key, text in texts.items():
        if not isinstance(text, str):
            raise UsageError(f"{name}: {key} is {text!r}; expected a text")
    bases: dict[str, Tree] = {}
    common = {"base": content.get("base")}
    read = {row: _read_row(row, {**common, **_settings(row, rows, name)}, name, bases) for row in rows}
    if not texts["metric"].strip() and any(row.published for row in read.values()):
        raise UsageError(f"{name}: say what the published numbers are, as 'metric: mean of the seven STS sets'")
    paper = None
    for row, found in read.items():
        if found.reading == "paper":
            paper = row
        elif paper is None:
            raise UsageError(f"{name}, row {row}: a released reading stands below the paper's row, and there is none")
        else:
            read[row] = replace(found, reading_of=paper)
    baseline = content.get("baseline")
    if baseline is not None and baseline not in [row for row, found in read.items() if found.absent is None]:
        raise UsageError(f"{name}: baseline is {baseline!r}; name one of the rows that are not absent")
    seeds = content.get("seeds")
    if seeds is not None:
        checks.whole(name, 2, seeds=seeds)
    return Table(name, texts["title"].strip() or Path(name).stem, texts["metric"].strip(), read, baseline, seeds)


def _settings(row: str, rows: Tree, name: str) -> Tree:
    settings = {} if rows[row] is None else rows[row]
    if not re.fullmatch(r"\w[\w.+-]{0,99}", row):  # it names files and folders
        raise UsageError(f"{name}: the row '{row}' needs a name of letters, digits, dots, hyphens and underscores")
    if not isinstance(settings, dict):
        raise UsageError(f"{name}, row {row}: found {settings!r}; expected {', '.join(_ROW_KEYS)}")
    _check_keys(settings, _ROW_KEYS, f"{name}, row {row}")
    return settings


def _check_keys(content: Tree, known: tuple[str, ...], where: str) -> None:
    for key in content:
        if key not in known:
            raise UsageError(f"{where}: unknown key '{key}'{did_you_mean(key, known)}; there are {', '.join(known)}")


def _read_row(row: str, settings: Tree, name: str, bases: dict[str, Tree]) -> Row:
    where = f"{name}, row {row}"
    reading, untrained, absent = (settings.get(key) for key in ("reading", "untrained", "absent"))
    if reading not in (None, *_READINGS):
        raise UsageError(f"{where}: reading is {reading!r}; expected {' or '.join(_READINGS)}")
    if untrained not in (None, *_UNTRAINED):
        raise UsageError(f"{where}: untrained is {untrained!r}; expected true, false or whitened")
    published = _read_published(settings.get("published"), where)
    sets = settings.get("sets") or {}
    if not isinstance(sets, dict):
        raise UsageError(f"{where}: sets is {sets!r}; expected numbers by set, as 'sets: {{sts16: 77.71 ± 1.06}}'")
    by_set = {key: _read_number(value, f"{where}, {key}") for key, value in sets.items()}
    if absent is None:
        return Row(_read_tree(settings, where, name, bases), published, by_set, reading or "paper", untrained or False)
    if not isinstance(absent, str) or not absent.strip() or settings.keys() & {"change", "reading", "untrained"}:
        raise UsageError(
            f"{where}: absent says why there is nothing to run, in a sentence, with no other key but published and sets"
        )
    return Row({}, published, by_set, absent=absent.strip())


def _read_tree(settings: Tree, where: str, name: str, bases: dict[str, Tree]) -> Tree:
    base, change = settings["base"], settings.get("change")
    if not isinstance(base, str) or not base.strip():
        raise UsageError(f"{where}: base is {base!r}; name a recipe, as 'base: bert-base.yaml' beside the table")
    if not isinstance(change, (dict, type(None))):
        raise UsageError(f"{where}: change is {change!r}; expected keys and values, as 'data.batch_size: 128'")
    try:
        if base not in bases:
            beside = expanded(name).parent / base
            bases[base] = read_config(str(beside) if beside.exists() else base)[1]
            if "rows" in bases[base]:
                raise UsageError(f"the base {base} is a table itself; name a recipe")
        tree = bases[base]
        for key, value in (change or {}).items():
            tree = assigned(tree, key, value)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    model = tree.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("objectives"), dict):
        return tree
    there = {key: value for key, value in model["objectives"].items() if value is not None}
    return {**tree, "model": {**model, "objectives": there}}  # a row is a whole recipe: null is not there at all


def _read_published(value: Any, where: str) -> tuple[float, float | None] | None:
    return None if value is None else _read_number(value, where)


def _read_number(value: Any, where: str) -> tuple[float, float | None]:
    found = re.fullmatch(rf"({_NUMBER})(?: ± ({_NUMBER}))?", "" if isinstance(value, bool) else str(value))
    if not found:
        raise UsageError(f"{where}: published is {value!r}; expected a number, or '74.80 ± 1.12'")
    return float(found[1]), None if found[2] is None else float(found[2])

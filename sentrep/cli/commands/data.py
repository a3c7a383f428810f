"""``sentrep data check``: is what we test on in what we train on?"""

from __future__ import annotations

import builtins
import sys
import time

from sentrep import checks
from sentrep.io.paths import check_target
from sentrep.reports.text import printable


def check(
    *,
    train: list[str],
    against: list[str],
    columns: list[str] | None = None,
    train_split: str = "train",
    sts_folder: str | None = None,
    split: str = "test",
    against_columns: list[str] | None = None,
    threshold: float = 0.8,
    output: str | None = None,
    list: str | None = None,
    overwrite: bool = False,
    fail_above: float | None = None,
) -> int:
    """Count the sentences of evaluation sets that stand in a training text, exactly or nearly, and its own duplicates.

    For example: sentrep data check --train corpus.txt --against sts12 stsb --sts_folder SentEval/data

    Args:
        train: the training text, anything that data.train takes: files, globs, data sets of the hub, toy.
        against: evaluation sets: names such as sts12, sickr, trec; files; folders with test.csv or in BEIR's layout.
        columns: columns of the training text, as data.columns.
        train_split: which split of a data set to train on.
        sts_folder: folder of the SentEval data, for named sets; without it the similarity sets come from the hub.
        split: which split of evaluation folders.
        against_columns: columns with texts of evaluation files; by default the usual names.
        threshold: least Jaccard similarity of the character trigrams of near sentences, from 0.5 to 1.
        output: also write the counts to this file: .json (everything), .md or .csv.
        list: write every overlapping pair of sentences to this csv file.
        overwrite: replace files that are there already.
        fail_above: exit with status 1 when the share (0 to 1) of some evaluation set is greater than this.

    Returns:
        The exit status.
    """
    from sentrep.cli.commands.maps import row_progress
    from sentrep.data.sets.evaluation_texts import load_evaluation_texts
    from sentrep.data.sets.leakage import Overlap, check_leakage
    from sentrep.data.text.corpus import open_corpus
    from sentrep.evaluation.leakage_report import leakage_report, write_overlaps
    from sentrep.reports.report import check_report_path

    if output is not None:
        check_report_path(output, [*train, *against], overwrite)
    if list is not None:
        check_target(list, [*train, *against], overwrite=overwrite)
    checks.within("data check", 0, 1, **checks.given(fail_above=fail_above))
    corpus = open_corpus(train, columns, train_split)
    sets = [load_evaluation_texts(spec, sts_folder, split, against_columns) for spec in against]
    start = time.perf_counter()
    overlaps: builtins.list[Overlap] = []
    with row_progress() as progress:
        task = progress.add_task("Looking up", total=None, note="")
        leakage = check_leakage(
            *(corpus, sets, threshold),
            found=overlaps.append if list else None,
            progress=lambda rows: progress.update(task, completed=rows),
        )
    seconds = time.perf_counter() - start
    report = leakage_report(leakage, seconds)
    report.print()
    rate = f"{leakage.sentences / seconds:,.0f} sentences a second"
    print(f"{seconds:.1f} s, {rate}" + (f"; overlaps: {printable(list)}" if list else ""), file=sys.stderr)
    if list is not None:
        write_overlaps(overlaps, list)
    if output is not None:
        report.write(output)
    worst = max(leakage.sets, key=lambda part: part.share)
    if fail_above is None or worst.share <= fail_above:
        return 0
    name = printable(worst.name)
    print(f"{name}: {worst.share:.2%} is in the training text, more than {fail_above:.2%}", file=sys.stderr)
    return 1

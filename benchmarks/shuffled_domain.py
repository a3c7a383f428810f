"""A text for `adapt_domains.py` on which nothing can be gained: documents of sentences that have nothing in common.

    python benchmarks/shuffled_domain.py --pairs rewrites.tsv --output DATA/shuffled

Of pairs of a sentence and another wording of it (two columns), the sentences are drawn into documents of six, without
titles. A document's own structure asks questions all the same, but its other sentences do not answer them. The truth,
in BEIR's layout: the other wording of a sentence is to find the document that it stands in.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np

_SENTENCES, _DOCUMENTS, _QUERIES = 6, 2000, 300


def main() -> None:
    """Write the domain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    with options.pairs.open(encoding="utf-8", newline="") as file:
        wordings = {row[0]: row[1] for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
    drawn = np.random.default_rng(0).permutation(list(wordings)).tolist()
    starts = range(0, _SENTENCES * _DOCUMENTS, _SENTENCES)
    documents = [drawn[start : start + _SENTENCES] for start in starts]
    (options.output / "qrels").mkdir(parents=True, exist_ok=True)
    texts = [{"_id": f"d{number}", "title": "", "text": " ".join(said)} for number, said in enumerate(documents)]
    asked = [{"_id": f"q{number}", "text": wordings[said[0]]} for number, said in enumerate(documents[:_QUERIES])]
    for name, rows in (("corpus", texts), ("queries", asked)):
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (options.output / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    judged = "".join(f"q{number}\td{number}\t1\n" for number in range(_QUERIES))
    (options.output / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", encoding="utf-8")


if __name__ == "__main__":
    main()

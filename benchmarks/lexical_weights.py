"""What matching words beside meaning is worth: a truth with labels, by the weight of `LexicalFeatures`.

    python benchmarks/lexical_weights.py --backbone sentence-transformers/all-MiniLM-L6-v2 --markdown table.md \\
        --domain scifact=DATA/scifact manuals=DATA/manuals packages=DATA/packages banking77=DATA/banking77

Nothing is trained: the features are fitted on the domain's text (its corpus.jsonl, else the texts of its train.csv),
which takes seconds, and no label is read but to judge. Domains and their truths are those of `adapt_domains.py`. The
interval is that of the difference to weight 0 (paired bootstrap over queries).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from adapt_domains import interval, truth
from tables import table

from sentrep.adaptation.preparation import Remembered
from sentrep.adaptation.words import WithWords
from sentrep.data.sets.labelled import load_labelled_file
from sentrep.encoder import SentenceEncoder, fit_lexical
from sentrep.io.files import write_text


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", required=True)
    parser.add_argument("--pooling", help="of a plain transformers folder")
    parser.add_argument("--domain", nargs="+", required=True, metavar="NAME=FOLDER")
    parser.add_argument("--features", type=int, nargs="+", default=[384])
    parser.add_argument("--weights", type=float, nargs="+", default=[0.1, 0.2, 0.3, 0.5])
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    changes = {"pooling": options.pooling} if options.pooling else {}
    lines = []
    for domain in options.domain:
        name, _, place = domain.partition("=")
        score, unit = truth(Path(place), None)
        start = Remembered(SentenceEncoder.from_pretrained(options.backbone, **changes))
        for features in options.features:
            module = fit_lexical(start.encoder, texts(Path(place)), features)
            found = {w: score(WithWords(start, module, w))[0] for w in (0.0, *options.weights)}
            gains = [values - found[0.0] for values in list(found.values())[1:]]
            cells = [f"{gain.mean():+.2f} ({interval(gain)[0]:+.1f} to {interval(gain)[1]:+.1f})" for gain in gains]
            lines.append([name, unit, str(module.features), f"{found[0.0].mean():.2f}", *cells])
            print(lines[-1], flush=True)
    shown = table(
        ["domain", "truth", "features", "as it is", *(f"weight {w:g}" for w in options.weights)], lines, left=2
    )
    print(shown)
    if options.markdown:
        write_text(options.markdown, shown)


def texts(folder: Path) -> list[str]:
    """What the features are fitted on."""
    corpus = folder / "corpus.jsonl"
    if not corpus.is_file():
        return load_labelled_file(folder / "train.csv").texts
    rows = (json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines())
    return [f"{row.get('title') or ''} {row['text']}".strip() for row in rows]


if __name__ == "__main__":
    main()

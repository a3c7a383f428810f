"""Alignment and uniformity (Wang & Isola 2020): the way of each run, from the open marker to the filled one.

Run it: python plane.py                                            # two short runs on the toy corpus
Of runs of your own: python plane.py runs/a/version_0 runs/b/version_0
`PREFIX` chooses the metrics: ``train/`` those of the training batches, ``val/stsb-dev/`` those of STS-B dev, as SimCSE
and DCLR (figure 4) show them.
"""

import sys

import lightning
import pandas as pd

import sentrep
from sentrep.evaluation.plots import legend_below, new_figure, save_figure, styled
from sentrep.objectives import Contrastive
from sentrep.training import RunReport

PREFIX = "train/"


def metrics_of(temperature: float) -> pd.DataFrame:
    """The metrics of a short run by step."""
    small = {
        "model_type": "bert", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2,
    }  # fmt: skip
    module = sentrep.SentRepModule(sentrep.SentenceEncoder(small, tokenizer="toy"), [Contrastive(temperature)])
    report = RunReport()
    lightning.Trainer(max_steps=60, log_every_n_steps=4, callbacks=[report]).fit(
        module, sentrep.SentRepDataModule(train="toy")
    )
    return report.history


def draw(runs: dict[str, pd.DataFrame]) -> None:
    with styled():
        figure = new_figure(2.6)
        axis = figure.add_subplot()
        for number, (label, metrics) in enumerate(runs.items()):
            colour, marker = f"C{number}", "os^DvPX"[number % 7]
            points = metrics[[f"{PREFIX}uniformity", f"{PREFIX}alignment"]].dropna().to_numpy()
            axis.plot(*points.T, color=colour, linewidth=0.8)
            axis.plot(*points[0], marker, color=colour, markerfacecolor="white", markersize=4)
            axis.plot(*points[-1], marker, color=colour, markersize=5, label=label)
        axis.locator_params(nbins=5)
        axis.set_xlabel("uniformity (lower is better)")
        axis.set_ylabel("alignment (lower is better)")
        legend_below(figure)
    print(*save_figure(figure, "plane"))


if __name__ == "__main__":
    if sys.argv[1:]:
        draw({run: pd.read_csv(f"{run}/metrics.csv", index_col="step") for run in sys.argv[1:]})
    else:
        draw({f"temperature {temperature}": metrics_of(temperature) for temperature in (0.05, 0.2)})

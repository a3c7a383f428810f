"""A table again: rows of a paper's beside a sampler of your own, under several seeds, with a report.

Run it: python reproduce_table.py (a toy: two seeds of a tiny model for 20 steps, so there is no verdict)
For real: leave TINY out, and --seeds 5; on two CPU cores, with all-MiniLM-L6-v2 in the place of BERT, that is
    sentrep fit --table table.yaml -c overrides/minilm --seeds 5
A table of a paper as it stands: sentrep fit --table thesis/tables/negatives --seeds 5
"""

import json
import shutil
from pathlib import Path

from sentrep.cli import main

TABLE = """
title: "Extra negatives: rows of Park (2023), table 5, and one of mine"
base: thesis/simcse
metric: mean of the seven STS sets, Spearman × 100 (BERT-base)
rows:
  simcse:
    published: 74.80 ± 1.12
  noisy-anchor:
    published: 68.79 ± 0.47
    change:
      model.objectives.simcse.negatives.noisy_anchor: {class_path: NoisyAnchorNegatives, init_args: {ratio: 1.0}}
  between-neighbours:
    change:
      model.objectives.simcse.negatives.between: own_negatives.BetweenNeighbours
"""
SIZE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
TINY = {
    "model": {
        "encoder": {
            "backbone": {"model_type": "bert", **SIZE},
            "tokenizer": "toy",
            "pooling": "mean",
        },
        "optimizer": {"init_args": {"lr": 1e-3}},
    },
    "data": {"train": "toy", "val": ["toy-dev"], "test": ["toy-test"]},
    "trainer": {"max_steps": 20, "val_check_interval": 20},
}

if __name__ == "__main__":
    Path("table.yaml").write_text(TABLE)
    Path("tiny.yaml").write_text(json.dumps(TINY))  # JSON is YAML
    mine = Path(__file__).with_name("own_negatives.py")
    shutil.copy(mine, mine.name)  # a class is found in the current folder, where you write yours
    assert main(["fit", "--table", "table.yaml", "-c", "tiny.yaml", "--seeds", "1,2"]) == 0
    print(Path("runs/table-tiny/report.md").read_text())  # report.tex and report.csv beside it

"""`sentrep adapt` from Python: a model made better on a text, judged without labels, and used for search.

Here the text is made up and the model has random weights. Run it: python adapt_domain.py
With yours, in a quarter of an hour: sentrep adapt docs.jsonl --backbone sentence-transformers/all-MiniLM-L6-v2
"""

import json
import random
import re
from pathlib import Path

import lightning

import sentrep
from sentrep.cli import main
from sentrep.data import toy

STEPS = {  # laid over adapt/pairs: a minute instead of a quarter of an hour
    "model": {"encoder": {"max_length": 32}, "optimizer": {"init_args": {"lr": 3e-3}}},
    "data": {"batch_size": 16},
    "trainer": {"max_steps": 60, "val_check_interval": 30, "enable_progress_bar": False, "enable_model_summary": False},
}


def documents(count: int) -> list[dict[str, str]]:
    """Each is about five words of its own, said in the words that all documents share."""
    draw = random.Random(0)
    words = sorted(set(re.findall(r"[a-z]+", " ".join(toy.sentences(2000)).lower())))
    draw.shuffle(words)
    shared, rare = words[:20], words[20:]

    def line(own: list[str], others: int) -> str:
        said = own + draw.sample(shared, others)
        return " ".join(draw.sample(said, len(said))).capitalize()

    made = []
    for _ in range(count):
        topic = draw.sample(rare, 5)
        text = " ".join(line(draw.sample(topic, 2), 5) + "." for _ in range(6))
        made.append({"title": line(draw.sample(topic, 3), 0), "text": text})
    return made


if __name__ == "__main__":
    lightning.seed_everything(0, verbose=False)
    text = documents(260)
    Path("docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in text))
    Path("few.yaml").write_text(json.dumps(STEPS))  # JSON is YAML
    small = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    start = sentrep.SentenceEncoder({**small, "intermediate_size": 64}, pooling="mean", tokenizer="toy")
    start.save_pretrained("start")
    assert main(["adapt", "docs.jsonl", "--backbone", "start", "--recipe", "[adapt/pairs, few.yaml]"]) == 0

    outcome = json.loads(Path("adapted/outcome.json").read_text())  # and adapted/report.html for people
    if outcome["verdict"] == "better":  # else there is no model: yours was better already
        for name in ("start", "adapted/model"):
            encoder = sentrep.SentenceEncoder.from_pretrained(name)
            found = encoder.search([row["title"] for row in text], [row["text"] for row in text], k=1)
            hits = sum(best == place for place, (best,) in enumerate(found.indices))
            print(f"{name}: {hits} of {len(text)} titles find their text first")

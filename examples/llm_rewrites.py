"""Pairs by a language model, as in DenoSent's second variant: a rewriting and a contrary sentence of every sentence.

The prompt is that of the paper's appendix (Wang et al., AAAI 2024), with a last line of ours.

Run it: python llm_rewrites.py                     # made-up answers, for some sentences of the toy corpus
With any server of OpenAI's interface (pip install openai): python llm_rewrites.py corpus.txt URL MODEL
"""

import functools
import json
import sys
from collections.abc import Callable

from datasets import Dataset, load_dataset

from sentrep.data import toy

PROMPT = """You are a data generator that is aware of sentence-level semantics. Your task is to generate sentences
based on the user's input sentence. Here are the requirements:
1. Produce a sentence as "sentence1", based on the given input, that retains the same semantic information as the input
sentence.
2. Produce a sentence as "sentence2", based on the given input, that has the contrary semantic information as the input
sentence or is completely unrelated to the input sentence.
3. The sentences you generated should be diverse, coherent and grammatically correct.
4. The sentences you generated should be varied in length, syntax and expression from the input sentence.
Answer with a JSON object that has the keys "sentence1" and "sentence2"."""


def ask_server(sentence: str, url: str, model: str) -> str | None:
    from openai import OpenAI  # any client will do: a function from a sentence to the model's answer

    messages = [{"role": "system", "content": PROMPT}, {"role": "user", "content": sentence}]
    with OpenAI(base_url=url, max_retries=10) as client:
        return client.chat.completions.create(model=model, messages=messages).choices[0].message.content


def made_up(sentence: str) -> str:
    return json.dumps({"sentence1": f"In other words: {sentence}", "sentence2": f"It is wrong that {sentence}"})


def rewrite(row: dict[str, str], ask: Callable[[str], str | None]) -> dict[str, str]:
    try:
        answer = json.loads(ask(row["text"]) or "")
        texts = [" ".join(answer[key].split()) for key in ("sentence1", "sentence2")]
    except (ValueError, KeyError, TypeError, AttributeError):  # another answer than that JSON object
        texts = ["", ""]
    return {"sent0": row["text"], "sent1": texts[0], "hard_neg": texts[1]}


def pairs(corpus: Dataset, ask: Callable[[str], str | None], at_once: int | None = None) -> Dataset:
    made = corpus.map(rewrite, fn_kwargs={"ask": ask}, remove_columns=["text"], num_proc=at_once)
    return made.filter(lambda row: all(row.values()))


if __name__ == "__main__":
    text, url, model = sys.argv[1:] or (None, None, None)
    corpus = load_dataset("text", data_files=text)["train"] if text else Dataset.from_dict({"text": toy.sentences(100)})
    made = pairs(corpus, functools.partial(ask_server, url=url, model=model) if text else made_up, 16 if text else None)
    made.to_parquet("rewrites.parquet")
    print(f"rewrites.parquet: {len(made)} of {len(corpus)} sentences; the first: {made[0]}")

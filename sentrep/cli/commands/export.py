"""``sentrep export``: from a checkpoint to a model folder."""

from __future__ import annotations

from typing import Literal

from sentrep.cli.errors import UsageError
from sentrep.io.files import atomic_folder, hold, remove_leftovers
from sentrep.io.paths import check_target, expanded, is_there, writing
from sentrep.reports.text import printable


def export(
    checkpoint: str,
    *,
    output: str,
    overwrite: bool = False,
    whiten: str | None = None,
    whiten_dim: int | None = None,
    trust_remote_code: bool = False,
    format: Literal["onnx", "openvino"] | None = None,
    quantize: Literal["int8"] | None = None,
    calibration: str | None = None,
    least_cosine: float = 0.98,
    sts: list[str] | None = None,
    sts_folder: str | None = None,
) -> None:
    """Write the encoder of a checkpoint as a folder that transformers and sentence-transformers load.

    For example: sentrep export best.ckpt --output model

    With --format the folder holds the whole model as one graph as well, and a line says how near its vectors are.

    Args:
        checkpoint: a checkpoint of `sentrep fit`, or any model that sentrep loads.
        output: the folder where the model goes.
        overwrite: replace the model files of a folder that is there already.
        whiten: file of sentences to fit a whitening on (BERT-whitening), which becomes part of the model.
        whiten_dim: how many dimensions the whitening keeps; by default all that vary.
        trust_remote_code: run code that the model names: a module of yours behind the pooling, or a hub model's own.
        format: also write a graph for onnxruntime or OpenVINO (the extras onnx and openvino).
        quantize: int8 for most products in 8 bits; needs --calibration.
        calibration: file of at least 500 sentences of your text, on which the graph is compared, and by which openvino
            scales int8.
        least_cosine: lowest cosine of any int8 vector to its float32 vector; below it nothing is written.
        sts: sets such as [stsb-dev] or csv files of two sentences and a score, on which the graph is compared as well.
        sts_folder: folder of the SentEval data, for named sets; without it they come from the hub.
    """
    import torch

    from sentrep.cli.commands.graph_checks import calibration_sentences, compare_scores, compare_vectors
    from sentrep.cli.commands.models import whitening_corpus
    from sentrep.cli.options import search_current_folder
    from sentrep.data import toy
    from sentrep.encoder import GraphEncoder, SentenceEncoder, fit_whitening, write_graph
    from sentrep.encoder.graph_export import check_graph
    from sentrep.encoder.loading.st_folders import remove_graphs
    from sentrep.evaluation import SuiteSets, load_suite

    if format is not None:
        check_graph(format, quantize, calibration is not None)
    elif any(option is not None for option in (quantize, calibration, sts, sts_folder)):
        raise UsageError("--quantize, --calibration, --sts and --sts_folder are about a graph: name its --format")
    sentences = calibration_sentences(calibration, quantize)
    sets = None if sts is None else load_suite("sts", SuiteSets(sts, sts_folder))
    corpus = whitening_corpus(whiten, whiten_dim)
    if trust_remote_code:
        search_current_folder()
    check_target(output, [checkpoint], folder=True)
    place = expanded(output).resolve()
    with hold(place.with_name(f".{place.name}.lock"), f"the folder {output}"):
        remove_leftovers(place)
        if not overwrite and place.is_dir() and any(place.iterdir()):
            raise is_there(output)
        encoder = SentenceEncoder.from_pretrained(checkpoint, trust_remote_code=trust_remote_code)
        if corpus is not None:
            fit_whitening(encoder.to("cuda" if torch.cuda.is_available() else "cpu"), corpus, whiten_dim)
        with writing(output), atomic_folder(place) as whole:
            encoder.save_pretrained(whole)
            if format is not None:
                write_graph(whole, format, quantize, sentences, trust_remote_code)
                graph = GraphEncoder(whole, format, trust_remote_code)
                least = None if quantize is None else least_cosine
                compare_vectors(encoder, graph, sentences or toy.sentences(100), least)
                if sets is not None:
                    compare_scores(encoder, graph, sets)
            remove_graphs(place)
        print(f"{printable(output)}: pooling {encoder.pooling}, {encoder.embedding_dim} dimensions")

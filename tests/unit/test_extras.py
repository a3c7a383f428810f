"""What an extra brings is asked for in one sentence, before any work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sentrep import SentenceEncoder, extras
from sentrep.cli.encode import encode
from sentrep.data.augmentation import translation
from sentrep.data.augmentation.translation import Translator
from sentrep.encoder import GraphEncoder, write_graph
from sentrep.encoder.adapters import Lora
from sentrep.errors import InputError
from sentrep.evaluation.mteb_adapter import load_task
from support import tiny_encoder


def translator(folder: Path) -> None:
    def missing(*arguments: object, **options: object) -> None:
        raise ImportError("no sentencepiece")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(translation.AutoTokenizer, "from_pretrained", missing)
        Translator(str(folder))


def graph(folder: Path) -> GraphEncoder:
    tiny_encoder().save_pretrained(folder / "model")
    (folder / "model" / "onnx").mkdir()
    (folder / "model" / "onnx" / "model.onnx").write_text("no graph")
    return SentenceEncoder.from_pretrained(folder / "model", backend="onnx")


USES: dict[str, tuple[str, str, Callable[[Path], object]]] = {
    "lora": ("lora", "peft", lambda folder: tiny_encoder(trainable=Lora())),
    "suite": ("mteb", "mteb", lambda folder: load_task(str(folder))),
    "write": ("onnx", "onnxscript", lambda folder: write_graph(tiny_encoder(), folder)),
    "read": ("onnx", "onnxruntime", graph),
    "tokenizer": ("backtranslate", "sentencepiece", translator),
    "workers": ("ray", "ray", lambda folder: encode("model", input="lines.txt", output="vectors", engine="ray")),
}


@pytest.mark.parametrize("use", USES)
def test_a_missing_or_old_package_is_one_sentence(use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra, package, work = USES[use]
    monkeypatch.setattr(extras, "RequirementCache", lambda bound: not bound.startswith(package))
    with pytest.raises(InputError, match=rf"needs the package {package}>=[\d.]+: pip install 'sentrep\[{extra}\]'$"):
        work(tmp_path)


def test_a_version_below_the_bound_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extras.lacking("peft", "mteb") is None
    monkeypatch.setattr("lightning_utilities.core.imports._version", lambda name: "0.0.1")
    assert extras.lacking("peft") == "peft>=0.18"

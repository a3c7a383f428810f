"""Attacks of a stranger's model folder by its JSON files: transformers would run code, sentrep runs none.

``LEFT_OUT`` and ``REFUSED`` have one attack of each kind. tests/test_security.py has those of checkpoints, weights,
paths and texts.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import PreTrainedConfig

from sentrep import InputError, SentenceEncoder, SentRepModule
from sentrep.data.augmentation.translation import Translator
from sentrep.io.strangers import build_config, read_tokenizer
from sentrep.objectives import Contrastive
from support import FAMILIES, checkpoint_of, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(3)
KERNEL = "someone/kernel"
REMOTE = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}

LEFT_OUT: dict[str, dict[str, Any]] = {
    "a kernel to fetch": {"attn_implementation": KERNEL},
    "a kernel under another name": {"attribute_map": {"harmless": "_attn_implementation_internal"}, "harmless": KERNEL},
    "kernels for layers": {"kernel_config": {"kernel_mapping": {"RMSNorm": KERNEL}}, "use_kernels": True},
    "files of its own": {"auto_map": REMOTE, "trust_remote_code": True},
    "weights elsewhere": {"transformers_weights": "../other.safetensors"},
    "a model within the model": {"text_config": {"model_type": "bert", "attn_implementation": KERNEL}},
    "what is a method": {"to_dict": "x", "get_text_config": "x"},
}
"""The model is what it is without them."""
REFUSED: dict[str, dict[str, Any]] = {
    "quantised weights": {"quantization_config": {"quant_method": "eetq"}},
    "a model of another package": {"model_type": "timm_wrapper", "architecture": "hf-hub:someone/kernel"},
    "a family of its own": {"model_type": "evil", "auto_map": REMOTE},
}
"""Without them it would be another model."""


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would have been fetched, with the package `kernels` as if it were installed."""
    rung: list[str] = []
    from transformers import modeling_utils
    from transformers.integrations import hub_kernels

    def fetch(name: str, *arguments: Any, **keywords: Any) -> Any:
        rung.append(str(name))
        raise ValueError(f"would have fetched {name}")

    real = transformers.modeling_utils.get_hf_quantizer

    def quantizer(config: PreTrainedConfig, *arguments: Any, **keywords: Any) -> Any:
        if getattr(config, "quantization_config", None):
            rung.append("quantizer")
        return real(config, *arguments, **keywords)

    for module in (modeling_utils, hub_kernels):
        monkeypatch.setattr(module, "is_kernels_available", lambda *a, **k: True)
    for name in ("get_kernel", "get_kernel_hub"):
        monkeypatch.setattr(hub_kernels, name, fetch, raising=False)
    monkeypatch.setattr("transformers.dynamic_module_utils.get_cached_module_file", fetch)
    monkeypatch.setattr("transformers.modeling_utils.get_hf_quantizer", quantizer)
    return rung


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_encoder(pooling="mean").save_pretrained(folder)
    return folder


def tampered(model: Path, file: str, keys: dict[str, Any], target: Path) -> Path:
    """A copy of the model folder with more keys in one of its files, and a module of its own."""
    shutil.copytree(model, target)
    content = json.loads((target / file).read_text()) if (target / file).exists() else {}
    (target / file).write_text(json.dumps({**content, **keys}))
    (target / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(target / 'ran')!r}).touch()\n"
        "from transformers import BertConfig, BertModel, BertTokenizer as Tokenizer\n"
        "class Config(BertConfig):\n    model_type = 'evil'\n"
        "class Model(BertModel):\n    config_class = Config\n"
    )
    return target


@pytest.mark.parametrize("keys", LEFT_OUT.values(), ids=LEFT_OUT)
def test_a_folders_key_is_left_out(keys: dict[str, Any], model: Path, tmp_path: Path, alarm: list[str]) -> None:
    expected = SentenceEncoder.from_pretrained(model).encode(SENTENCES)
    folder = tampered(model, "config.json", keys, tmp_path / "model")
    np.testing.assert_array_equal(SentenceEncoder.from_pretrained(folder).encode(SENTENCES), expected)
    (folder / "sentrep.json").unlink()  # leaves a folder of sentence-transformers
    (folder / "modules.json").unlink()  # or of transformers
    plain = SentenceEncoder(str(folder), pooling="mean").eval()
    np.testing.assert_array_equal(plain.encode(SENTENCES), expected)
    assert alarm == []
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("keys", REFUSED.values(), ids=REFUSED)
def test_a_folders_key_is_refused(keys: dict[str, Any], model: Path, tmp_path: Path, alarm: list[str]) -> None:
    folder = tampered(model, "config.json", keys, tmp_path / "model")
    with pytest.raises(InputError, match=r"model: .*trust_remote_code: true"):
        SentenceEncoder.from_pretrained(folder)
    assert alarm == []
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("keys", [*LEFT_OUT.values(), *REFUSED.values()], ids=[*LEFT_OUT, *REFUSED])
def test_a_checkpoints_key_does_nothing(keys: dict[str, Any], tmp_path: Path, alarm: list[str]) -> None:
    module = SentRepModule(tiny_encoder(), [Contrastive()])
    content = torch.load(checkpoint_of(module, tmp_path), weights_only=True)
    content["sentrep"]["architecture"] |= keys
    encoder = content["hyper_parameters"]["encoder"]
    encoder.get("init_args", encoder).update(backbone={**FAMILIES["bert"], **keys, "trust_remote_code": True})
    torch.save(content, tmp_path / "x.ckpt")
    if keys in LEFT_OUT.values():
        vectors = SentenceEncoder.from_pretrained(tmp_path / "x.ckpt").encode(SENTENCES)
        np.testing.assert_array_equal(vectors, module.encoder.encode(SENTENCES))
        SentRepModule.load_from_checkpoint(tmp_path / "x.ckpt")
    else:
        for load in (SentenceEncoder.from_pretrained, SentRepModule.load_from_checkpoint):
            with pytest.raises(InputError):
                load(tmp_path / "x.ckpt")
    assert alarm == []


def test_a_translation_model_gets_no_more_than_an_encoder(tmp_path: Path, alarm: list[str]) -> None:
    config = {"model_type": "marian", "quantization_config": {"quant_method": "eetq"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="quantised"):
        Translator(str(tmp_path))
    assert alarm == []


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize(
    "keys", [{"tokenizer_class": "AutoModel"}, {"tokenizer_class": ["AutoModel"]}, {"vocab": "/etc/passwd"}]
)
def test_a_tokenizers_key_is_refused(
    keys: dict[str, Any], file: str, model: Path, tmp_path: Path, alarm: list[str]
) -> None:
    if file == "config.json" and "tokenizer_class" not in keys:
        return  # transformers reads the others in the tokenizer's own file alone
    folder = tampered(model, file, keys, tmp_path / "model")
    for load in (lambda: SentenceEncoder.from_pretrained(folder), lambda: tiny_encoder(tokenizer=str(folder))):
        with pytest.raises(InputError, match="model: its tokenizer"):
            load()
    assert alarm == []


def test_a_tokenizers_own_code_does_not_run(model: Path, tmp_path: Path, alarm: list[str]) -> None:
    keys = {"auto_map": REMOTE, "processor_class": "X", "trust_remote_code": True}
    folder = tampered(model, "tokenizer_config.json", keys, tmp_path / "model")
    (folder / "processor_config.json").write_text(json.dumps({"auto_map": {"AutoProcessor": "evil.Tokenizer"}}))
    SentenceEncoder.from_pretrained(folder)
    assert alarm == []
    assert not (folder / "ran").exists()


def test_a_folder_with_an_adapter_is_refused(model: Path, tmp_path: Path) -> None:
    keys = {"peft_type": "LORA", "base_model_name_or_path": KERNEL, "megatron_core": "os"}
    folder = tampered(model, "adapter_config.json", keys, tmp_path / "model")
    with pytest.raises(InputError, match="PEFT adapter"):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize("kind", ["os.system", "sentence_transformers.models.CrossEncoder"])
def test_a_module_of_another_kind_is_refused(kind: str, model: Path, tmp_path: Path) -> None:
    folder = tampered(model, "sentrep.json", {}, tmp_path / "model")
    (folder / "sentrep.json").unlink()
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))
    with pytest.raises(InputError, match="sentrep knows them only as Transformer, Pooling"):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_attention_of_transformers_itself_stays(attention: str, alarm: list[str]) -> None:
    description = {**FAMILIES["bert"], "attn_implementation": attention}
    assert build_config(description, "backbone", own=True)._attn_implementation == attention
    assert build_config(description, "model")._attn_implementation == attention


@pytest.mark.parametrize("keys", [{"attn_implementation": KERNEL}, {"auto_map": REMOTE}, *[*REFUSED.values()][:1]])
def test_a_typed_configuration_that_chooses_code_is_refused(keys: dict[str, Any], alarm: list[str]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(keys))}.*trust_remote_code: true"):
        SentenceEncoder({**FAMILIES["bert"], **keys}, tokenizer="toy")
    assert alarm == []


@pytest.mark.parametrize(("key", "hint"), [("hiden_size", "did you mean 'hidden_size'"), ("wings", "leave it out")])
def test_a_misspelt_number_of_a_typed_configuration_is_refused(key: str, hint: str) -> None:
    with pytest.raises(InputError, match=rf"backbone: {key} '64' .* bert; {hint}"):
        SentenceEncoder({**FAMILIES["bert"], key: 64}, tokenizer="toy")


@pytest.mark.parametrize(
    "keys",
    [
        {"model_type": "modernbert", "global_attn_every_n_layers": 1, "local_rope_theta": 100.0},
        {"model_type": "bert", "hidden_dropout_prob": 0.2, "use_cache": False},
        {"model_type": "distilbert", "hidden_size": 64},
    ],
)
def test_a_number_that_a_family_reads_and_does_not_declare_is_taken(keys: dict[str, Any]) -> None:
    assert build_config(keys, "backbone", own=True).to_dict() == build_config(keys, "backbone").to_dict()


def test_trust_lets_a_folders_own_code_run(model: Path, tmp_path: Path) -> None:
    folder = tampered(model, "config.json", REFUSED["a family of its own"], tmp_path / "model")
    SentenceEncoder.from_pretrained(folder, trust_remote_code=True)
    assert (folder / "ran").exists()


def test_what_makes_a_model_stays() -> None:
    labels = {"id2label": {"0": "auto_map"}, "label2id": {"auto_map": 0}}
    config = build_config({**FAMILIES["bert"], **labels, "hidden_size": 64}, "x")
    assert (config.hidden_size, config.id2label) == (64, {0: "auto_map"})
    opt = build_config({"model_type": "opt", "_remove_final_layer_norm": True}, "x")
    assert opt._remove_final_layer_norm is True
    mistral = build_config({"model_type": "mistral", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]}, "x")
    assert mistral.model_type == "ministral"


def test_a_tokenizer_alone_needs_no_configuration(model: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    assert read_tokenizer(str(tmp_path), {"local_files_only": True}).mask_token == "[MASK]"

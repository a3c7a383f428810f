"""Every key of a model folder that transformers turns into code: none of them gets through."""

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
from sentrep.encoder.loading.backbones import architecture
from sentrep.io.checkpoint_file import FORMAT
from sentrep.io.strangers import build_config, read_tokenizer
from sentrep.objectives import Contrastive
from support import FAMILIES, checkpoint_of, tiny_encoder, toy_sentences

SENTENCES = toy_sentences(3)
KERNEL = "someone/kernel"
REMOTE = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]}

# Left out: the model is what it is without them.
LEFT_OUT: dict[str, dict[str, Any]] = {
    "attn_implementation": {"attn_implementation": KERNEL},
    "attn_implementation with revision and name": {"attn_implementation": f"{KERNEL}@main:attend"},
    "attn_implementation of transformers' own community": {"attn_implementation": "kernels-community/flash-attn2"},
    "attn_implementation flash": {"attn_implementation": "flash_attention_2"},
    "attn_implementation paged": {"attn_implementation": f"paged|{KERNEL}"},
    "attn_implementation by part": {"attn_implementation": {"": KERNEL, "text_config": KERNEL}},
    "_attn_implementation": {"_attn_implementation": KERNEL},
    "_attn_implementation_internal": {"_attn_implementation_internal": KERNEL},
    "attn_implementation_internal": {"attn_implementation_internal": KERNEL},
    "attribute_map to": {"attribute_map": {"harmless": "_attn_implementation_internal"}, "harmless": KERNEL},
    "attribute_map from": {"attribute_map": {"_attn_implementation": "harmless"}, "harmless": KERNEL},
    "experts_implementation": {"experts_implementation": "sonicmoe"},
    "_experts_implementation": {"_experts_implementation": "deepgemm"},
    "_experts_implementation_internal": {"_experts_implementation_internal": KERNEL},
    "use_kernels": {"use_kernels": True},
    "hub_kernels": {"hub_kernels": [KERNEL]},
    "kernel_config": {"kernel_config": {"kernel_mapping": {"RMSNorm": KERNEL}}, "use_kernels": True},
    "auto_map": {"auto_map": REMOTE},
    "auto_map elsewhere": {"auto_map": {key: f"{KERNEL}--{value}" for key, value in REMOTE.items()}},
    "custom_pipelines": {"custom_pipelines": {"encode": {"impl": "evil.Pipeline", "pt": ["AutoModel"]}}},
    "custom_generate": {"custom_generate": KERNEL},
    "trust_remote_code": {"trust_remote_code": True, "auto_map": REMOTE},
    "code_revision": {"code_revision": "main"},
    "fusion_config": {"fusion_config": {"patch": True}},
    "distributed_config": {"distributed_config": {"tp_size": 2}},
    "transformers_weights": {"transformers_weights": "../other.safetensors"},
    "dtype": {"dtype": "load"},
    "torch_dtype": {"torch_dtype": "hub"},
    "name_or_path": {"name_or_path": KERNEL},
    "_name_or_path": {"_name_or_path": KERNEL},
    "_commit_hash": {"_commit_hash": "x"},
    "_auto_class": {"_auto_class": "AutoModel"},
    "architectures": {"architectures": ["evil.Model", "os.system"]},
    "sub_configs": {"sub_configs": {"text_config": "evil.Config"}},
    "to_dict": {"to_dict": "x"},
    "get_text_config": {"get_text_config": "x"},
    "extra_files": {"extra_files": ["../../other.safetensors"]},
    "processor_class": {"processor_class": "evil.Processor"},
    "timm backbone": {"backbone_config": {"model_type": "timm_backbone", "backbone": "hf-hub:someone/kernel"}},
    "in a part": {"text_config": {"model_type": "bert", "attn_implementation": KERNEL, "auto_map": REMOTE}},
    "in a list": {"parts": [{"_attn_implementation": KERNEL}]},
}
# Refused: without them it would be another model.
REFUSED: dict[str, dict[str, Any]] = {
    "quantization_config": {"quantization_config": {"quant_method": "eetq"}},
    "quantization_config with code": {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}},
    "compression_config": {"compression_config": {"quant_method": "compressed-tensors"}},
    "timm": {"model_type": "timm_wrapper", "architecture": "hf-hub:someone/kernel"},
    "detectron2": {"model_type": "layoutlmv2"},
    "own kernels": {"model_type": "mra"},
    "model_type of its own": {"model_type": "evil", "auto_map": REMOTE},
}
TOKENIZER_REFUSED: dict[str, dict[str, Any]] = {
    "a model": {"tokenizer_class": "AutoModel"},
    "a model of a family": {"tokenizer_class": "BertModel"},
    "a function": {"tokenizer_class": "pipeline"},
    "a processor": {"tokenizer_class": "AutoProcessor"},
    "another door": {"tokenizer_class": "AutoTokenizer"},
    "no name": {"tokenizer_class": ["AutoModel"]},
    "gguf_file": {"gguf_file": "../other.gguf"},
    "init_inputs": {"init_inputs": ["x"]},
    "vocab": {"vocab": "/etc/passwd"},
    "merges": {"merges": "/etc/passwd"},
    "fast_tokenizer_files": {"fast_tokenizer_files": ["../tokenizer.4.0.json"]},
}


@pytest.fixture
def alarm(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would have been fetched, with the package `kernels` as if it were installed."""
    rung: list[str] = []
    from transformers import modeling_utils
    from transformers.integrations import hub_kernels

    def fetch(name: str, *arguments: Any, **keywords: Any) -> Any:
        rung.append(str(name))
        raise ValueError(f"would have fetched {name}")

    for module in (modeling_utils, hub_kernels):
        monkeypatch.setattr(module, "is_kernels_available", lambda *a, **k: True)
    for name in ("get_kernel", "get_kernel_hub"):
        monkeypatch.setattr(hub_kernels, name, fetch, raising=False)
    monkeypatch.setattr("transformers.dynamic_module_utils.get_cached_module_file", fetch)
    monkeypatch.setattr("transformers.modeling_utils.get_hf_quantizer", _watched(rung))
    return rung


def _watched(rung: list[str]) -> Any:
    real = transformers.modeling_utils.get_hf_quantizer

    def quantizer(config: PreTrainedConfig, *arguments: Any, **keywords: Any) -> Any:
        if getattr(config, "quantization_config", None):
            rung.append("quantizer")
        return real(config, *arguments, **keywords)

    return quantizer


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
        "from transformers import BertConfig as Config, BertModel as Model, BertTokenizer as Tokenizer\n"
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
    encoder = tiny_encoder()
    payload = {
        "architecture": {**architecture(encoder.backbone), **keys},
        "tokenizer": {"tokenizer.json": encoder.tokenize.tokenizer.backend_tokenizer.to_str()},
        "settings": {"pooling": "cls"},
    }
    payload["tokenizer"]["tokenizer_config.json"] = json.dumps({"pad_token": "[PAD]"})
    state = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    torch.save({"state_dict": state, "sentrep": {**payload, "format": FORMAT}}, tmp_path / "x.ckpt")
    if keys in LEFT_OUT.values():
        again = SentenceEncoder.from_pretrained(tmp_path / "x.ckpt")
        np.testing.assert_array_equal(again.encode(SENTENCES), encoder.encode(SENTENCES))
    else:
        with pytest.raises(InputError):
            SentenceEncoder.from_pretrained(tmp_path / "x.ckpt")
    assert alarm == []


@pytest.mark.parametrize("name", ["attn_implementation", "attribute_map to", "auto_map", "quantization_config"])
def test_a_transformer_in_a_sub_folder_is_no_way_around(
    name: str, model: Path, tmp_path: Path, alarm: list[str]
) -> None:
    keys = {**LEFT_OUT, **REFUSED}[name]
    (tmp_path / "model").mkdir()
    tampered(model, "config.json", keys, tmp_path / "model" / "0_Transformer")
    for file in ("sentrep.json", "modules.json"):
        (tmp_path / "model" / "0_Transformer" / file).unlink()
    (tmp_path / "model" / "0_Transformer" / "1_Pooling").rename(tmp_path / "model" / "1_Pooling")
    modules = [
        {"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (tmp_path / "model" / "modules.json").write_text(json.dumps(modules))
    if name in REFUSED:
        with pytest.raises(InputError, match="quantised"):
            SentenceEncoder.from_pretrained(tmp_path / "model")
    else:
        expected = SentenceEncoder.from_pretrained(model).encode(SENTENCES)
        np.testing.assert_array_equal(SentenceEncoder.from_pretrained(tmp_path / "model").encode(SENTENCES), expected)
    assert alarm == []


@pytest.mark.parametrize("name", ["attn_implementation", "attribute_map to", "auto_map"])
def test_training_goes_on_without_a_checkpoints_keys(name: str, tmp_path: Path, alarm: list[str]) -> None:
    module = SentRepModule(tiny_encoder(), {"simcse": Contrastive()})
    content = torch.load(checkpoint_of(module, tmp_path), weights_only=True)
    content["sentrep"]["architecture"] |= LEFT_OUT[name]
    encoder = content["hyper_parameters"]["encoder"]
    backbone = {**FAMILIES["bert"], **LEFT_OUT[name], "trust_remote_code": True}
    encoder.get("init_args", encoder).update(backbone=backbone)
    torch.save(content, tmp_path / "x.ckpt")
    SentRepModule.load_from_checkpoint(tmp_path / "x.ckpt")
    assert alarm == []


def test_a_translation_model_gets_no_more_than_an_encoder(tmp_path: Path, alarm: list[str]) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "marian", "quantization_config": {"quant_method": "eetq"}})
    )
    with pytest.raises(InputError, match="quantised"):
        Translator(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "AutoModel"}))
    with pytest.raises(InputError, match="no tokenizer"):
        Translator(str(tmp_path))
    assert alarm == []


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("keys", TOKENIZER_REFUSED.values(), ids=TOKENIZER_REFUSED)
def test_a_tokenizers_key_is_refused(
    keys: dict[str, Any], file: str, model: Path, tmp_path: Path, alarm: list[str]
) -> None:
    if file == "config.json" and "tokenizer_class" not in keys:
        return  # transformers reads the others in the tokenizer's own file alone
    folder = tampered(model, file, keys, tmp_path / "model")
    (folder / "config.json").write_text(
        json.dumps({**json.loads((folder / "config.json").read_text()), "attn_implementation": KERNEL})
    )
    for load in (lambda: SentenceEncoder.from_pretrained(folder), lambda: tiny_encoder(tokenizer=str(folder))):
        with pytest.raises(InputError, match="model: its tokenizer"):
            load()
    assert alarm == []


@pytest.mark.parametrize(
    "keys", [{"auto_map": REMOTE}, {"auto_map": REMOTE["AutoTokenizer"]}, {"processor_class": "X"}]
)
def test_a_tokenizers_own_code_does_not_run(
    keys: dict[str, Any], model: Path, tmp_path: Path, alarm: list[str]
) -> None:
    folder = tampered(model, "tokenizer_config.json", {**keys, "trust_remote_code": True}, tmp_path / "model")
    (folder / "processor_config.json").write_text(json.dumps({"auto_map": {"AutoProcessor": "evil.Tokenizer"}}))
    SentenceEncoder.from_pretrained(folder)
    assert alarm == []
    assert not (folder / "ran").exists()


def test_a_folder_with_an_adapter_is_refused(model: Path, tmp_path: Path) -> None:
    keys = {"peft_type": "LORA", "base_model_name_or_path": KERNEL, "megatron_core": "os"}
    folder = tampered(model, "adapter_config.json", keys, tmp_path / "model")
    with pytest.raises(InputError, match="PEFT adapter"):
        SentenceEncoder.from_pretrained(folder)


@pytest.mark.parametrize("kind", ["evil.Code", "os.system", "sentence_transformers.models.CrossEncoder", "CNN"])
def test_a_module_of_another_kind_is_refused(kind: str, model: Path, tmp_path: Path) -> None:
    folder = tampered(model, "sentrep.json", {}, tmp_path / "model")
    (folder / "sentrep.json").unlink()
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": "", "type": kind}]))
    with pytest.raises(InputError, match="sentrep knows them only as Transformer, Pooling"):
        SentenceEncoder.from_pretrained(folder)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation"])
def test_the_attention_of_transformers_itself_stays(key: str, attention: str, alarm: list[str]) -> None:
    description = {**FAMILIES["bert"], key: attention}
    assert build_config(description, "backbone", own=True)._attn_implementation == attention
    assert build_config(description, "model")._attn_implementation == attention
    SentenceEncoder(description, tokenizer="toy").encode(SENTENCES)


@pytest.mark.parametrize(
    "keys",
    [
        {"attn_implementation": KERNEL},
        {"attn_implementation": "flash_attention_2"},
        {"experts_implementation": "sonicmoe"},
        {"auto_map": REMOTE},
        {"quantization_config": {"quant_method": "eetq"}},
    ],
)
def test_a_typed_configuration_that_chooses_code_is_refused(keys: dict[str, Any], alarm: list[str]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(keys))}.*trust_remote_code: true"):
        SentenceEncoder({**FAMILIES["bert"], **keys}, tokenizer="toy")
    assert alarm == []


@pytest.mark.parametrize(
    ("family", "key", "meant"),
    [("bert", "hiden_size", "hidden_size"), ("distilbert", "n_layer", "n_layers"), ("bert", "wings", None)],
)
def test_a_misspelt_number_of_a_typed_configuration_is_refused(family: str, key: str, meant: str | None) -> None:
    hint = "; leave it out" if meant is None else f"; did you mean '{meant}'"
    with pytest.raises(InputError, match=rf"backbone: {key} '64' is no setting of the family {family}{hint}"):
        SentenceEncoder({**FAMILIES[family], key: 64}, tokenizer="toy")


@pytest.mark.parametrize(
    "keys",
    [
        {"model_type": "modernbert", "global_attn_every_n_layers": 1, "local_rope_theta": 100.0},
        {"model_type": "deberta-v2", "pooler_hidden_size": 64},
        {"model_type": "bert", "hidden_dropout_prob": 0.2, "use_cache": False},
        {"model_type": "distilbert", "hidden_size": 64},
    ],
)
def test_a_number_that_a_family_reads_and_does_not_declare_is_taken(keys: dict[str, Any]) -> None:
    assert build_config(keys, "backbone", own=True).to_dict() == build_config(keys, "backbone").to_dict()


def test_trust_lets_a_folders_own_code_run(model: Path, tmp_path: Path) -> None:
    folder = tampered(model, "config.json", {"model_type": "evil", "auto_map": REMOTE}, tmp_path / "model")
    (folder / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(folder / 'ran')!r}).touch()\n"
        "from transformers import BertConfig, BertModel\n"
        "class Config(BertConfig):\n    model_type = 'evil'\n"
        "class Model(BertModel):\n    config_class = Config\n"
    )
    SentenceEncoder.from_pretrained(folder, trust_remote_code=True)
    assert (folder / "ran").exists()


def test_what_makes_a_model_stays() -> None:
    labels = {"id2label": {"0": "auto_map"}, "label2id": {"auto_map": 0}}
    description = {**FAMILIES["bert"], **labels, "hidden_size": 64}
    config = build_config(description, "x")
    assert (config.hidden_size, config.id2label) == (64, {0: "auto_map"})
    opt = build_config({"model_type": "opt", "_remove_final_layer_norm": True}, "x")
    assert opt._remove_final_layer_norm is True
    mistral = build_config({"model_type": "mistral", "num_hidden_layers": 1, "layer_types": ["sliding_attention"]}, "x")
    assert mistral.model_type == "ministral"


def test_a_tokenizer_alone_needs_no_configuration(model: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    assert read_tokenizer(str(tmp_path), {"local_files_only": True}).mask_token == "[MASK]"

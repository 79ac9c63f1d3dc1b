"""The model is transformers' own: same names, same logits, same files; and wrong files are named."""

# torch, transformers and safetensors type their functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.train.parallel_support import CPU, Case, build
from workloads.train.errors import TrainingError, UsageError
from workloads.train.model import CausalLM, materialise, read_config, skeleton
from workloads.train.model_shape import BUILT_IN, ModelShape, shape_of

QWEN = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "num_hidden_layers": 28,
    "intermediate_size": 8960,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


def hugging_face(name: str, seed: int = 3) -> Any:
    """Return transformers' own model of a built-in configuration, with weights of its own."""
    config = dict(BUILT_IN[name])
    torch.manual_seed(seed)
    if config.pop("model_type") == "llama":
        from transformers.models.llama.configuration_llama import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaForCausalLM

        return LlamaForCausalLM(LlamaConfig(**config)).eval()  # pyright: ignore[reportArgumentType]
    from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**config)).eval()  # pyright: ignore[reportArgumentType]


def load(folder: Path) -> CausalLM:
    module = skeleton(read_config(folder), "mask")
    materialise(module, CPU, weights=folder, seed=0)
    return module


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_files_of_save_pretrained_give_the_logits_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = hugging_face(name)
    theirs.save_pretrained(tmp_path)
    tokens = torch.randint(320, (2, 16), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        found = load(tmp_path).logits(tokens, torch.arange(16).expand(2, 16))
        torch.testing.assert_close(found, theirs(tokens).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_parameters_have_the_names_of_transformers(name: str) -> None:
    assert [key for key, _ in build(Case(model=name)).named_parameters()] == [
        key for key, _ in hugging_face(name).named_parameters()
    ]


def test_weights_in_several_files_and_in_bf16_are_read_as_fp32(tmp_path: Path) -> None:
    theirs = hugging_face("tiny-qwen2").to(torch.bfloat16)
    theirs.save_pretrained(tmp_path, max_shard_size="200KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    for name, parameter in load(tmp_path).named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.equal(theirs.get_parameter(name).float()), name


def test_a_tied_head_is_the_embedding_through_meta_and_load(tmp_path: Path) -> None:
    """https://github.com/huggingface/accelerate/pull/4171"""
    theirs = hugging_face("tiny-qwen2")
    theirs.save_pretrained(tmp_path)
    module = load(tmp_path)
    assert module.shape.tied
    assert module.head_weight is module.model.get_parameter("embed_tokens.weight")
    assert sum(one.numel() for one in module.parameters()) == sum(one.numel() for one in theirs.parameters())
    assert "lm_head.weight" not in module.state_dict()


def test_an_untied_head_is_its_own(tmp_path: Path) -> None:
    theirs = hugging_face("tiny-llama")
    theirs.save_pretrained(tmp_path)
    module = load(tmp_path)
    assert module.head_weight.equal(theirs.lm_head.weight)
    assert not module.head_weight.equal(module.model.get_parameter("embed_tokens.weight"))


def test_a_file_that_holds_a_tied_head_too_is_read(tmp_path: Path) -> None:
    hugging_face("tiny-qwen2").save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file(
        {**weights, "lm_head.weight": weights["model.embed_tokens.weight"].clone()}, tmp_path / "model.safetensors"
    )
    assert load(tmp_path).head_weight.equal(weights["model.embed_tokens.weight"])


def test_random_weights_follow_from_seed_and_name_alone() -> None:
    one, same, other = (build(Case()) for _ in range(3))
    for module, seed in ((one, 1), (same, 1), (other, 2)):
        materialise(module, CPU, weights=None, seed=seed)
    for name, parameter in one.named_parameters():
        assert parameter.equal(same.get_parameter(name)), name
        if parameter.ndim > 1:
            assert not parameter.equal(other.get_parameter(name)), name
            assert parameter.std().item() == pytest.approx(0.02, rel=0.1)
    assert one.get_parameter("model.norm.weight").unique().tolist() == [1.0]
    assert one.get_parameter("model.layers.0.self_attn.q_proj.bias").unique().tolist() == [0.0]


def test_buffers_that_are_in_no_file_are_made() -> None:
    module = build(Case())
    materialise(module, CPU, weights=None, seed=1)
    wanted = hugging_face("tiny-qwen2").model.rotary_emb.inv_freq
    assert module.model.get_buffer("rotary_emb.inv_freq").equal(wanted)


def test_tensors_that_are_missing_too_many_or_of_another_shape_are_named_together(tmp_path: Path) -> None:
    hugging_face("tiny-qwen2").save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    weights["model.norm.weight"] = torch.ones(95)
    weights["score.weight"] = torch.ones(2)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(TrainingError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"weights in {tmp_path}: model.layers.1.mlp.up_proj.weight is missing; score.weight is not of this model; "
        "model.norm.weight has shape [95], not [96]; allowed: the tensors that config.json describes"
    )


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    hugging_face("tiny-qwen2").save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TrainingError, match=rf"^weights in {path}: cannot read them: .*; download them anew$"):
        load(tmp_path)


def test_a_folder_without_safetensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(BUILT_IN["tiny-qwen2"]))
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(UsageError, match=r"found no \*\.safetensors; allowed: weights in safetensors"):
        load(tmp_path)


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_a_configuration_that_is_none_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(UsageError, match=r"^model: .*config\.json: .*; allowed: "):
        read_config(tmp_path)


def test_the_shape_of_a_configuration() -> None:
    shape = shape_of(QWEN)
    assert shape == ModelShape(
        num_layers=28,
        hidden_size=1536,
        num_heads=12,
        num_kv_heads=2,
        head_dim=128,
        intermediate_size=8960,
        vocab_size=151936,
        tied=True,
    )
    # 1,543,714,304 with the biases of queries, keys and values (https://huggingface.co/Qwen/Qwen2.5-1.5B).
    assert shape.num_parameters == 1_543_714_304 - 28 * (1536 + 256 + 256)


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_the_shape_counts_what_the_model_has(name: str) -> None:
    module = build(Case(model=name))
    biases = sum(one.numel() for key, one in module.named_parameters() if key.endswith("bias"))
    assert module.shape.num_parameters == sum(one.numel() for one in module.parameters()) - biases


def test_what_older_configurations_leave_out_follows_from_the_rest() -> None:
    old = {key: value for key, value in QWEN.items() if key not in ("num_key_value_heads", "tie_word_embeddings")}
    shape = shape_of(old)
    assert (shape.num_kv_heads, shape.tied) == (12, False)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"model_type": "gpt2"},
            "model.name: model_type in its configuration: found 'gpt2'; allowed: qwen2 or llama; take another model",
        ),
        (
            {"hidden_size": 0},
            "model.name: hidden_size in its configuration: found 0; allowed: a whole number of at least 1",
        ),
        ({"vocab_size": True}, "model.name: vocab_size in its configuration: found True; "),
        (
            {"num_key_value_heads": 5},
            "model.name: num_key_value_heads in its configuration: found 5; allowed: a divisor of ",
        ),
        (
            {"use_sliding_window": True},
            "model.name: use_sliding_window in its configuration: found True; allowed: false; ",
        ),
    ],
    ids=str,
)
def test_a_configuration_that_is_not_trained_is_one_line(change: dict[str, object], line: str) -> None:
    with pytest.raises(UsageError) as caught:
        shape_of({**QWEN, **change}, "model.name")
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_wrong_numbers_of_a_configuration_are_said_together() -> None:
    with pytest.raises(UsageError) as caught:
        shape_of({**QWEN, "hidden_size": None, "vocab_size": -1})
    assert len(str(caught.value).splitlines()) == 2

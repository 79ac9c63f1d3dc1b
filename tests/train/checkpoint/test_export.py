"""The exported folder: what transformers loads from it says what the trained model says."""

# torch and transformers type their functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import json
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from safetensors import safe_open
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from tests.train.checkpoint.checkpoint_support import (
    CountingStore,
    RefusingStore,
    Trained,
    alone,
    checkpoints_at,
    flip_a_bit,
    save,
)
from tests.train.rank_pool import Ranks
from workloads.train.checkpoint import command, export
from workloads.train.checkpoint.export import export_module, model_files
from workloads.train.checkpoint.manifest import folder
from workloads.train.checkpoint.store import DirectoryStore
from workloads.train.errors import StoreError, UsageError

pytestmark = pytest.mark.xdist_group("ranks")
TOKENS = torch.randint(64, (2, 12), generator=torch.Generator().manual_seed(1))


def hugging_face(*, tied: bool) -> torch.nn.Module:
    from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

    torch.manual_seed(8)
    config = Qwen2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=tied,
    )
    return cast(torch.nn.Module, Qwen2ForCausalLM(config))


def described(folder: Path, module: torch.nn.Module) -> dict[str, Path | bytes]:
    """Return the files of a model that is not on a disk yet."""
    config = cast(Any, module).config.to_json_string().encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text('{"ours": true}')
    return {"config.json": config, "tokenizer.json": folder / "tokenizer.json"}


def sharded(world_size: int, *, tied: bool) -> tuple[Trained, torch.Tensor]:
    """Return a model of transformers after a step, on so many ranks, and its logits."""
    module = hugging_face(tied=tied)
    mesh = init_device_mesh("cpu", (world_size,))
    for layer in cast(Any, module).model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    trained = Trained(module, torch.optim.AdamW(module.parameters(), lr=1e-2))
    cast(Any, module)(TOKENS).logits.logsumexp(-1).mean().backward()
    trained.optimizer.step()
    trained.optimizer.zero_grad()
    with torch.no_grad():
        logits = cast(torch.Tensor, cast(Any, module)(TOKENS).logits)
    return trained, logits.full_tensor() if isinstance(logits, DTensor) else logits.clone()


def logits_of(path: Path, dtype: torch.dtype) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, local_files_only=True)
    assert model.dtype == dtype
    with torch.no_grad():
        return model.float()(TOKENS).logits


def rank_exports(rank: int, path: Path, tied: bool) -> torch.Tensor:
    trained, logits = sharded(2, tied=tied)
    files = described(path / "model", trained.module)
    if rank == 0:
        (path / "model" / "config.json").write_bytes(cast(bytes, files["config.json"]))
    export_module(trained.module, model_files(path / "model"), DirectoryStore(str(path / "out")), "float32")
    with checkpoints_at(DirectoryStore(str(path / "store")), files=files) as made:
        save(made, trained, 1)
    return logits


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def exported(
    request: pytest.FixtureRequest, two: Ranks, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, torch.Tensor, bool]:
    """A folder that two ranks exported, beside a checkpoint of the same step, and the logits of the model."""
    path = tmp_path_factory.mktemp("exported")
    return path, two(rank_exports, path, request.param)[0], request.param


def test_from_pretrained_gives_equal_logits(exported: tuple[Path, torch.Tensor, bool]) -> None:
    path, expected, _ = exported
    assert torch.equal(logits_of(path / "out", torch.float32), expected)
    assert sorted(one.name for one in (path / "out").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_a_tied_weight_is_there_once(exported: tuple[Path, torch.Tensor, bool]) -> None:
    path, _, tied = exported
    with safe_open(path / "out" / "model.safetensors", "pt") as opened:
        names = set(opened.keys())
    assert "model.embed_tokens.weight" in names
    assert ("lm_head.weight" in names) is not tied


def test_a_checkpoint_is_exported_without_ranks_to_the_same_weights(
    exported: tuple[Path, torch.Tensor, bool], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, expected, _ = exported
    code = command.main(["export", f"{path}/store/{folder(1)}", str(tmp_path / "out"), "--dtype", "float32"])
    assert code == 0
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (path / "out" / "model.safetensors").read_bytes()
    assert torch.equal(logits_of(tmp_path / "out", torch.float32), expected)
    said = json.loads(capsys.readouterr().out)
    assert (said["event"], said["step"], said["dtype"], said["num_files"]) == ("export", 1, "float32", 3)


def test_bfloat16_is_the_weights_rounded(exported: tuple[Path, torch.Tensor, bool], tmp_path: Path) -> None:
    path, _, _ = exported
    command.main(["export", f"{path}/store/{folder(1)}/", str(tmp_path / "out")])
    with (
        safe_open(path / "out" / "model.safetensors", "pt") as full,
        safe_open(tmp_path / "out" / "model.safetensors", "pt") as half,
    ):
        for name in full.keys():  # noqa: SIM118 -- no mapping
            assert torch.equal(half.get_tensor(name), full.get_tensor(name).bfloat16())
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    assert logits_of(tmp_path / "out", torch.bfloat16).isfinite().all()


def test_a_large_model_goes_into_several_files(
    exported: tuple[Path, torch.Tensor, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, expected, _ = exported
    monkeypatch.setattr(export, "LARGEST", 20_000)
    command.main(["export", f"{path}/store/{folder(1)}", str(tmp_path / "out"), "--dtype", "float32"])
    parts = sorted((tmp_path / "out").glob("model-*.safetensors"))
    assert len(parts) > 2
    assert parts[0].name == f"model-00001-of-{len(parts):05}.safetensors"
    assert torch.equal(logits_of(tmp_path / "out", torch.float32), expected)


def test_only_files_with_weights_are_fetched(exported: tuple[Path, torch.Tensor, bool], tmp_path: Path) -> None:
    path, _, _ = exported
    store = CountingStore(f"{path}/store", tmp_path / "notes")
    from workloads.train.checkpoint.folders import read

    export.export_checkpoint(store, read(store, folder(1)), DirectoryStore(str(tmp_path / "out")), "float32")
    shards = [name for name in store.read if name.endswith(".distcp")]
    assert len(shards) == len(list((path / "store" / folder(1)).glob("*.distcp"))) // 2


@pytest.mark.parametrize("name", ["tiny-qwen2", "tiny-llama"])
def test_the_trainers_own_model_is_exported(name: str, tmp_path: Path) -> None:
    """It has no head where that is tied, and computes by itself; transformers must find the same in the folder."""
    from workloads.train import attention
    from workloads.train.model import materialise, skeleton
    from workloads.train.model_shape import BUILT_IN

    with alone(tmp_path / "meeting"):
        module = skeleton(BUILT_IN[name], attention.choose("cpu"))
        materialise(module, torch.device("cpu"), weights=None, seed=2)
        (tmp_path / "config.json").write_text(json.dumps(BUILT_IN[name]))
        export_module(module, model_files(tmp_path), DirectoryStore(str(tmp_path / "out")), "float32")
        with torch.no_grad():
            expected = module.logits(TOKENS, torch.arange(12).expand(2, 12))
    assert torch.allclose(logits_of(tmp_path / "out", torch.float32), expected, atol=1e-5)


def rank_exports_into_refusal(rank: int, path: Path) -> str:
    trained, _ = sharded(2, tied=True)
    files = described(path / "model", trained.module)
    if rank == 0:
        (path / "model" / "config.json").write_bytes(cast(bytes, files["config.json"]))
    store = RefusingStore(str(path / "out"))
    store.refused = ("safetensors",)
    with pytest.raises(StoreError) as caught:
        export_module(trained.module, model_files(path / "model"), store, "float32")
    return str(caught.value)


def test_a_store_that_refuses_fails_all_ranks_with_the_same_words(two: Ranks, tmp_path: Path) -> None:
    found = two(rank_exports_into_refusal, tmp_path)
    assert found == [f"checkpoint store {tmp_path}/out: cannot put model.safetensors: refused"] * 2
    assert not (tmp_path / "out" / "config.json").exists(), "a folder without config.json is no model"


def test_a_damaged_checkpoint_is_not_exported(exported: tuple[Path, torch.Tensor, bool], tmp_path: Path) -> None:
    path, _, _ = exported
    copy = tmp_path / "store" / folder(1)
    copy.mkdir(parents=True)
    for one in (path / "store" / folder(1)).rglob("*"):
        if one.is_file():
            (copy / one.relative_to(path / "store" / folder(1))).parent.mkdir(exist_ok=True)
            (copy / one.relative_to(path / "store" / folder(1))).write_bytes(one.read_bytes())
    flip_a_bit(copy / "__0_0.distcp")
    with pytest.raises(StoreError, match=rf"^checkpoint {copy}: damaged: __0_0.distcp; take another one"):
        command.main(["export", str(copy), str(tmp_path / "out")])


def test_wrong_arguments_are_said_with_what_there_is(exported: tuple[Path, torch.Tensor, bool], tmp_path: Path) -> None:
    path, _, _ = exported
    there = f"; there: {folder(1)}"
    for uri, said in {
        f"{path}/store": f"CHECKPOINT_URI: found '{path}/store'; allowed: the folder of one checkpoint, .../step-NUMBER{there}",
        f"{path}/store/{folder(9)}": f"where nothing is; allowed: one that is there{there}",
    }.items():
        with pytest.raises(UsageError) as caught:
            command.main(["export", uri, str(tmp_path)])
        assert said in str(caught.value)
    with pytest.raises(UsageError, match=r"required: CHECKPOINT_URI, OUT; see --help"):
        command.main(["export"])


def test_a_checkpoint_without_the_models_files_says_so(tmp_path: Path) -> None:
    with alone(tmp_path / "meeting"):
        trained, _ = sharded(1, tied=True)
        with checkpoints_at(DirectoryStore(str(tmp_path / "store"))) as made:
            save(made, trained, 1)
    with pytest.raises(StoreError, match=r"has no model/config.json"):
        command.main(["export", f"{tmp_path}/store/{folder(1)}", str(tmp_path / "out")])

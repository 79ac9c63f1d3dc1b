"""A causal language model of transformers, cut to what training needs: decoder, head, and the loss inside the root's forward.

Weights are made in three steps, so that no rank ever holds the whole model in fp32: on the meta device, where they have shapes alone;
sharded (`parallel`); and then given memory and values shard by shard (`materialise`).

Each rank reads its own rows of the safetensors files: they are mapped into memory, rows of a shard are one range of bytes, all ranks
of a node share the page cache, and nothing crosses the network or passes through rank 0, which a broadcast of 3 to 16 GB would.
"""

# torch and transformers type their functions in part only.
# pyright: reportUnknownMemberType=false

import json
import zlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from safetensors import safe_open
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from . import attention, loss
from .attention import Kind
from .data.batch import IGNORED
from .errors import TrainingError, UsageError
from .model_shape import ModelShape, shape_of


class CausalLM(torch.nn.Module):
    """A decoder and its head. Parameters have the names of transformers' own model; a tied head has none, being the embedding."""

    def __init__(self, decoder: torch.nn.Module, head: torch.nn.Module | None, config: Any, kind: Kind) -> None:
        super().__init__()
        self.model = decoder
        if head is not None:
            self.lm_head = head
        self.config = config
        self.kind: Kind = kind
        self.chunk_rows = loss.ROWS
        self.chunk: loss.Chunk = loss.chunk_with_gradients

    @property
    def shape(self) -> ModelShape:
        """Return the numbers that cost follows from."""
        return shape_of(self.config)

    @property
    def blocks(self) -> list[torch.nn.Module]:
        """Return the decoder's blocks, first to last."""
        return list(self.model.get_submodule("layers").children())

    @property
    def head_weight(self) -> torch.Tensor:
        """Return the head's weight, [words, width]: the embedding's where they are tied."""
        name = "lm_head.weight" if hasattr(self, "lm_head") else "model.embed_tokens.weight"
        return self.get_parameter(name)

    def forward(
        self,
        input_ids: torch.Tensor,
        position_ids: torch.Tensor,
        labels: torch.Tensor,
        num_documents: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss in nats, summed in fp32 over the labels that count, and their number, int64: both scalars.

        All arguments are int64 [rows, length]. `num_documents`, counted on the host, saves a wait for the device.
        """
        hidden = self.hidden(input_ids, position_ids, num_documents)
        total = loss.summed_loss(
            hidden.flatten(0, 1), self.head_weight, labels.flatten(), rows=self.chunk_rows, chunk=self.chunk
        )
        return total, (labels != IGNORED).sum()

    def hidden(
        self, input_ids: torch.Tensor, position_ids: torch.Tensor, num_documents: int | None = None
    ) -> torch.Tensor:
        """Return what the head sees: [rows, length, width]. Without transformers' own forward, which would make masks anew."""
        decoder = cast(Any, self.model)
        hidden: torch.Tensor = decoder.embed_tokens(input_ids)
        positions = decoder.rotary_emb(hidden, position_ids)
        documents = attention.documents(position_ids, self.kind, num_documents).arguments()
        for block in self.blocks:
            hidden = block(hidden, position_embeddings=positions, **documents)
        return decoder.norm(hidden)

    def logits(self, input_ids: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Return what the head says of every token: [rows, length, words]. For evaluation; training never holds it."""
        return self.hidden(input_ids, position_ids) @ self.head_weight.t()


def read_config(folder: Path, key: str = "model") -> Mapping[str, object]:
    """Return the config.json of a model's folder.

    Raises:
        UsageError: there is none, or it is no JSON object.
    """
    path = folder / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{key}: cannot read {path}: {error}; allowed: a folder of transformers' save_pretrained"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(f"{key}: {path}: found {type(found).__name__}; allowed: a JSON object")
    return cast(dict[str, object], found)


def skeleton(config: Mapping[str, object], kind: Kind, key: str = "model") -> CausalLM:
    """Return the model that a config.json describes on the meta device, in fp32.

    Raises:
        UsageError: it is no model that this program trains.
    """
    shape = shape_of(config, key)
    described, make = _classes(str(config["model_type"]))
    full = described(**{name: value for name, value in config.items() if name not in ("model_type", "dtype")})
    full._attn_implementation = attention.NAME
    full.use_cache = False
    with torch.device("meta"):
        whole = make(full)
    return CausalLM(whole.model, None if shape.tied else whole.lm_head, full, kind).to(torch.float32)


def _classes(family: str) -> tuple[Any, Any]:
    # By module, not from the package: that one looks through every model that it has.
    if family == "llama":
        from transformers.models.llama.configuration_llama import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaForCausalLM

        return LlamaConfig, LlamaForCausalLM
    from transformers.models.qwen2.configuration_qwen2 import Qwen2Config
    from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM

    return Qwen2Config, Qwen2ForCausalLM


def materialise(module: CausalLM, device: torch.device, *, weights: Path | None, seed: int) -> None:
    """Give a model on the meta device memory and values: those in the folder `weights`, or random ones.

    Random ones depend on seed and name alone, so every mesh gets the same.

    Raises:
        TrainingError: the files are not those of this model; all that is missing or of another shape is named.
    """
    module.to_empty(device=device)
    decoder = cast(Any, module.model)
    # No parameters, and its buffers are in no file.
    decoder.rotary_emb = type(decoder.rotary_emb)(config=module.config, device=device)
    with torch.no_grad():
        if weights is None:
            _draw(module, device, seed)
        else:
            _read(module, weights)


def _draw(module: CausalLM, device: torch.device, seed: int) -> None:
    for name, parameter in module.named_parameters():
        rows, local = _mine(parameter)
        if name.endswith("norm.weight"):
            local.fill_(1.0)
        elif name.endswith(".bias"):
            local.zero_()
        else:
            generator = torch.Generator(device).manual_seed(seed * 1_000_003 + zlib.crc32(name.encode()))
            whole = torch.empty(parameter.shape, device=device)
            whole.normal_(0.0, module.config.initializer_range, generator=generator)
            local.copy_(whole[rows])


def _read(module: CausalLM, folder: Path) -> None:
    where = _files(folder)
    wanted = dict(module.named_parameters())
    problems = [f"{name} is missing" for name in wanted if name not in where]
    # Of a tied model some files hold the head too: it is the embedding.
    known = {*wanted, "lm_head.weight"} if not hasattr(module, "lm_head") else set(wanted)
    problems += [f"{name} is not of this model" for name in where if name not in known and "inv_freq" not in name]
    for file in sorted({where[name] for name in wanted if name in where}):
        with _opened(file) as opened:
            for name in (name for name in wanted if where.get(name) == file):
                stored, parameter = opened.get_slice(name), wanted[name]
                if tuple(stored.get_shape()) != tuple(parameter.shape):
                    problems.append(f"{name} has shape {stored.get_shape()}, not {list(parameter.shape)}")
                    continue
                rows, local = _mine(parameter)
                if local.numel():
                    local.copy_(stored[rows])
    if problems:
        shown = "; ".join(problems[:8]) + (f"; and {len(problems) - 8} more" if len(problems) > 8 else "")
        raise TrainingError(f"weights in {folder}: {shown}; allowed: the tensors that config.json describes")


def _files(folder: Path) -> dict[str, Path]:
    """Return in which file each tensor is."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise UsageError(
            f"model: {folder}: found no *.safetensors; allowed: weights in safetensors; convert them with save_pretrained"
        )
    found: dict[str, Path] = {}
    for file in files:
        try:
            with _opened(file) as opened:
                found.update(dict.fromkeys(opened.keys(), file))
        except Exception as error:
            # safetensors' own class, which is no OSError and no ValueError.
            raise TrainingError(f"weights in {file}: cannot read them: {error}; download them anew") from error
    return found


class _Slice(Protocol):
    """A tensor in a file, of which rows are read."""

    def get_shape(self) -> list[int]: ...
    def __getitem__(self, rows: slice) -> torch.Tensor: ...


class _File(Protocol):
    def keys(self) -> list[str]: ...
    def get_slice(self, name: str) -> _Slice: ...


def _opened(file: Path) -> AbstractContextManager[_File]:
    return cast(AbstractContextManager[_File], safe_open(file, framework="pt"))


def _mine(parameter: torch.Tensor) -> tuple[slice, torch.Tensor]:
    """Return which rows of a parameter this rank holds, and their memory."""
    if not isinstance(parameter, DTensor):
        return slice(0, parameter.shape[0]), parameter.data
    shape, offset = compute_local_shape_and_global_offset(parameter.shape, parameter.device_mesh, parameter.placements)
    return slice(offset[0], offset[0] + shape[0]), parameter.to_local()

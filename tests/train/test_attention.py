"""Documents in one sequence do not see each other, whichever way they are kept apart."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import pytest
import torch

from tests.train.parallel_support import CPU, Case, build
from workloads.train import attention
from workloads.train.attention import choose, count_documents, documents
from workloads.train.model import CausalLM, materialise

LENGTHS = [(7, 20, 5), (1, 1, 30), (32,)]


def positions(lengths: tuple[int, ...]) -> torch.Tensor:
    return torch.cat([torch.arange(length) for length in lengths])


@pytest.fixture(scope="module", params=["tiny-qwen2", "tiny-llama"])
def model(request: pytest.FixtureRequest) -> CausalLM:
    module = build(Case(model=request.param))
    materialise(module, CPU, weights=None, seed=5)
    return module


def test_packed_documents_give_the_logits_of_separate_ones(model: CausalLM) -> None:
    tokens = torch.randint(320, (len(LENGTHS), 32), generator=torch.Generator().manual_seed(1))
    position_ids = torch.stack([positions(lengths) for lengths in LENGTHS])
    packed = model.logits(tokens, position_ids)
    for row, lengths in enumerate(LENGTHS):
        start = 0
        for length in lengths:
            own = slice(start, start + length)
            alone = model.logits(tokens[row : row + 1, own], position_ids[row : row + 1, own])
            torch.testing.assert_close(packed[row, own], alone[0], rtol=1e-4, atol=1e-5)
            start += length


def test_a_token_is_seen_in_its_own_document_and_not_before_it(model: CausalLM) -> None:
    tokens = torch.randint(320, (1, 32), generator=torch.Generator().manual_seed(2))
    position_ids = positions((10, 22))[None]
    changed = tokens.clone()
    changed[0, 15] = (changed[0, 15] + 1) % 320
    moved = (model.logits(tokens, position_ids) != model.logits(changed, position_ids)).any(-1)[0]
    assert not moved[:15].any()
    assert moved[15:].all()


def test_without_the_documents_they_would_see_each_other(model: CausalLM) -> None:
    tokens = torch.randint(320, (1, 32), generator=torch.Generator().manual_seed(2))
    packed, whole = positions((10, 22))[None], positions((32,))[None]
    assert (model.logits(tokens, packed)[0, 10:] - model.logits(tokens, whole)[0, 10:]).abs().max() > 1e-3


def test_rows_of_one_document_need_no_mask() -> None:
    found = documents(torch.arange(8).expand(3, 8), "mask")
    assert (found.mask, found.bounds) == (None, None)


def test_a_row_begins_a_document_whatever_it_is_cut_from() -> None:
    position_ids = torch.stack([torch.arange(4, 12), positions((3, 5))])
    assert count_documents(position_ids) == 3
    mask = documents(position_ids, "mask").mask
    assert isinstance(mask, torch.Tensor)
    assert mask.shape == (2, 1, 8, 8)
    assert mask[0, 0].equal(torch.ones(8, 8, dtype=torch.bool).tril())
    assert not mask[1, 0, 3:, :3].any()


def test_bounds_are_those_of_the_documents_in_a_table_of_a_size_that_does_not_follow_them() -> None:
    one = documents(torch.stack([positions((3, 5)), positions((8,))]), "varlen", 3)
    other = documents(torch.stack([positions((1, 1, 6)), positions((2, 6))]), "varlen", 5)
    assert one.bounds is not None
    assert other.bounds is not None
    assert one.bounds.dtype == torch.int32
    assert one.bounds.shape == other.bounds.shape == (33,)
    assert one.bounds[:5].tolist() == [0, 3, 8, 16, 16]
    assert other.bounds[:7].tolist() == [0, 1, 2, 8, 10, 16, 16]
    assert one.longest == 8


def test_every_document_has_its_place_when_each_is_one_token() -> None:
    found = documents(torch.zeros(2, 64, dtype=torch.int64), "varlen", 128)
    assert found.bounds is not None
    assert found.bounds.tolist() == list(range(129))


def test_a_count_from_the_host_gives_the_same() -> None:
    position_ids = torch.stack([positions((3, 5)), positions((8,))])
    one, other = documents(position_ids, "varlen"), documents(position_ids, "varlen", 3)
    assert one.bounds is not None
    assert other.bounds is not None
    assert one.bounds.equal(other.bounds)


def test_a_block_mask_lets_see_what_the_mask_lets_see() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    position_ids = torch.stack([positions((3, 13)), positions((16,))])
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, heads, 16, 8, generator=generator) for heads in (4, 2, 2))
    block = documents(position_ids, "flex").mask
    mask = documents(position_ids, "mask").mask
    wanted, _ = attention.attend(torch.nn.Identity(), query, key, value, mask)
    found, _ = attention.attend(torch.nn.Identity(), query, key, value, block)
    assert callable(flex_attention)
    torch.testing.assert_close(found, wanted)


def test_a_cpu_has_the_mask() -> None:
    assert choose("cpu") == "mask"


def test_a_gpu_has_varlen_where_torch_has_it() -> None:
    assert choose("cuda") == "varlen"

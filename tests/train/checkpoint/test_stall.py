"""How long a save holds training up: printed, and bounded by what copying the state costs."""

# torch types its functions in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import time
from pathlib import Path

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.train.checkpoint.checkpoint_support import Trained, alone, checkpoints_at, resume
from workloads.train.checkpoint.store import DirectoryStore


def test_a_save_of_200_mb_holds_training_up_for_the_copy_alone(tmp_path: Path) -> None:
    with alone(tmp_path / "meeting"):
        module = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048, bias=False) for _ in range(4)])
        mesh = init_device_mesh("cpu", (1,))
        for layer in module:
            fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        trained = Trained(module, torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True))
        store = DirectoryStore(str(tmp_path / "store"))
        with checkpoints_at(store, local_path=str(tmp_path / "local")) as made:
            held = made.prepare(trained.module, trained.optimizer)
            assert held > 200e6
            module(torch.ones(1, 2048)).sum().backward()
            trained.optimizer.step()
            trained.optimizer.zero_grad()
            copied = time.monotonic()
            copy = [one.detach().clone() for one in trained.whole().values()]
            copied = time.monotonic() - copied
            del copy
            made.save(1, trained.module, trained.optimizer, {})
            # Training goes on here; the commit comes when all is uploaded.
            deadline = time.monotonic() + 60
            while not made.outcomes and time.monotonic() < deadline:
                time.sleep(0.02)
                made.poll()
            (outcome,) = made.outcomes
            print(
                f"\nstate {held / 1e6:.0f} MB: training stood still for {outcome.stall_seconds:.3f} s, "
                f"durable after {outcome.seconds:.3f} s; a plain copy of it takes {copied:.3f} s"
            )
            assert outcome.status == "saved"
            assert outcome.bytes > 200e6
            assert len(list((tmp_path / "store" / "step-0000000001").glob("*.distcp"))) == 8, (
                "four streams for each kind"
            )
            assert outcome.stall_seconds < 0.5 * outcome.seconds
            assert resume(made, trained) is not None

"""Entry point of the training program, which is not written yet.

It reads its arguments, says so and ends as a failure: a job that trained nothing must not look like one that did.
"""

import argparse
import json
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what would be trained and that nothing was; return 3."""
    parser = argparse.ArgumentParser(prog="train", description=__doc__)
    parser.add_argument("--model", required=True, help="model, as the Hugging Face Hub names it")
    parser.add_argument(
        "--storage-path", required=True, help="s3://BUCKET/PREFIX or /fsx/PATH for checkpoints and records"
    )
    parser.add_argument("--num-nodes", required=True, type=int, help="Ray workers, one on each GPU node")
    parser.add_argument("--gpus-per-node", required=True, type=int, help="GPUs of each worker")
    parser.add_argument("--network", required=True, choices=("efa", "tcp"), help="the network that the run must prove")
    options, further = parser.parse_known_args(arguments)
    said = "the training program is not part of this version: nothing was trained"
    print(
        json.dumps(
            {"event": "result", "status": "failed", "reason": said, "options": vars(options), "further": further}
        )
    )
    return 3


if __name__ == "__main__":
    sys.exit(main())

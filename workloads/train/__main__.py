"""Entry point: `python -m train`. Exit code 0 when the run succeeded, 1 when it failed, 2 for wrong arguments, 143 after SIGTERM."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from . import hub
from .cli import parse
from .errors import TrainingError
from .model_shape import BUILT_IN

COMMANDS = {"transport": "transport", "plan": "plan", "checkpoint": "checkpoint"}
"""Words that ask for something else than training, by the package whose `command.main` answers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the arguments say; print what is wrong, one line each, as the last lines."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words and words[0] in COMMANDS:
            # Imported here, as below: what is not asked for is not loaded.
            return import_module(f".{COMMANDS[words[0]]}.command", __package__).main(words[1:])
        config = parse(words)
        if config.model.name not in BUILT_IN:
            # A model that is not there, or not for this run, is said before anything is started for it.
            hub.fetch(config.model.name, config.model.revision, run=config.run.name, patterns=hub.CONFIG)
        # Wrong arguments are said before Ray or torch is loaded.
        if "LOCAL_RANK" in os.environ:
            from .alone import run as run_alone

            return run_alone(config)
        from .launch import run

        return run(config)
    except TrainingError as error:
        print("\n".join(f"train: {line}" for line in str(error).splitlines()), flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

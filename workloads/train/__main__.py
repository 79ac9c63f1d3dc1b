"""Entry point: `python -m train`. Exit code 0 when the run succeeded, 1 when it failed, 2 for wrong arguments, 143 after SIGTERM."""

import sys
from collections.abc import Sequence

from .errors import TrainingError
from .options import parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as the arguments say; print what is wrong, one line each, as the last lines."""
    try:
        options = parse(arguments)
        # Imported here: wrong arguments are said before Ray is loaded.
        from .launch import run

        return run(options)
    except TrainingError as error:
        print("\n".join(f"train: {line}" for line in str(error).splitlines()), flush=True)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

"""Run a stand-in as the engine runs a provider plugin: `python -m rehearsal.providers aws|eks ENGINE_ADDRESS`."""

from __future__ import annotations

import sys

PROVIDERS = ("aws", "eks")


def main(arguments: list[str]) -> int:
    """Serve a provider; the first line on stdout is its port. Gives 2 for bad usage."""
    if not arguments or arguments[0] not in PROVIDERS:
        found = arguments[0] if arguments else "nothing"
        print(
            f"providers: found {found}, allowed are {' and '.join(PROVIDERS)}, then the engine's address",
            file=sys.stderr,
        )
        return 2
    # The engine adds flags for logging and tracing; they are its own affair.
    addresses = [argument for argument in arguments[1:] if not argument.startswith("-")]
    if arguments[0] == "aws":
        from .light import skip_sdk

        skip_sdk()
        from .serving import serve_aws

        serve_aws()
        return 0
    if not addresses:
        print("providers: eks needs the engine's address", file=sys.stderr)
        return 2
    from .eks.serving import serve_eks

    serve_eks(addresses[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

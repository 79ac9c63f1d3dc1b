"""The tags by which a person, a bill and a sweep recognise what this stack made."""

from collections.abc import Callable

PROJECT = "efa-ray-train"

Tagger = Callable[..., dict[str, str]]


def tagger(stack: str) -> Tagger:
    """Return a function from a resource's name to its tags; further tags are given as `tag("efa", gpu_az="us-east-2b")`."""

    def tag(name: str, **further: str) -> dict[str, str]:
        own = {f"{PROJECT}:{key.replace('_', '-')}": value for key, value in further.items() if value}
        return {"Name": f"{PROJECT}-{stack}-{name}", f"{PROJECT}:project": PROJECT, f"{PROJECT}:stack": stack, **own}

    return tag

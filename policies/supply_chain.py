"""Supply chain: an image is what its digest says."""

import re
from collections.abc import Iterator
from typing import Final

from policies.graph import Resource
from policies.pods import kind, pods
from policies.rules import Finding, ResourceRule, not_checked, violation
from policies.values import UNKNOWN, at, show, text

TRIAL_STACKS: Final = frozenset({"rehearsal", "dev"})
"""Stacks in which a tag is a remark, not an error."""

_PINNED: Final = re.compile(r"@sha256:[0-9a-f]{64}$")


def check_images(resource: Resource) -> Iterator[Finding]:
    """Check that the images of a Kubernetes resource are pinned by digest; one finding for each image."""
    tagged: dict[str, list[str]] = {}
    for pod in pods(resource):
        images = [at(container, "image") for container in pod.containers()]
        if UNKNOWN in images:
            yield not_checked(resource, f"an image in {pod.path}", then="it is pinned by digest")
        for image in images:
            if image is not UNKNOWN and not _PINNED.search(text(image) or ""):
                tagged.setdefault(show(image), []).append(pod.path)
    for image, paths in tagged.items():
        yield violation(
            resource,
            f"image {image} in {kind(resource)} {resource.name} ({', '.join(dict.fromkeys(paths))})",
            allowed="REPOSITORY@sha256:DIGEST",
            why="a tag can name another image tomorrow, on one node and not on the other",
            fix="pulumi config set image REPOSITORY@sha256:DIGEST, the digest as the registry gives it",
        )


def _serious(resource: Resource) -> Iterator[Finding]:
    return check_images(resource) if resource.stack not in TRIAL_STACKS else iter(())


def _trial(resource: Resource) -> Iterator[Finding]:
    return check_images(resource) if resource.stack in TRIAL_STACKS else iter(())


_WHAT: Final = "Container images are pinned by digest"
_WHY: Final = "A run can be repeated only with the very image that it used."
RULES = (
    ResourceRule(
        id="image-digest", what=f"{_WHAT}.", why=_WHY, fix="`image: REPOSITORY@sha256:DIGEST`.", check=_serious
    ),
    ResourceRule(
        id="image-digest-trial",
        what=f"{_WHAT}; a remark in stacks {' and '.join(sorted(TRIAL_STACKS))}.",
        why=_WHY,
        fix="`image: REPOSITORY@sha256:DIGEST`.",
        check=_trial,
        advisory=True,
    ),
)

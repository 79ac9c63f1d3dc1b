"""Delete markers: moto closes the content of every version that it drops, which a marker has not, and answers 500."""

from moto.s3.models import FakeDeleteMarker


def dispose(_marker: FakeDeleteMarker) -> None:
    """Close nothing."""


def install() -> None:
    """Give delete markers what moto asks of each version. In a bucket whose versioning is suspended it asks it of them too."""
    FakeDeleteMarker.dispose = dispose  # pyright: ignore[reportAttributeAccessIssue] -- this is what is added

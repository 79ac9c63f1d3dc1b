"""The directories that environment variables name: absolute ones, so that nothing lands where a run happens to start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from rehearsal.errors import RehearsalError

CACHE_VARIABLE = "EFA_RAY_TRAIN_CACHE"
STATE_VARIABLE = "EFA_RAY_TRAIN_STATE"


def check_places(environ: Mapping[str, str]) -> None:
    """Raise RehearsalError when HOME, $EFA_RAY_TRAIN_CACHE, $EFA_RAY_TRAIN_STATE or an $XDG_*_HOME is a relative path.

    Go and Python would each take it from the directory that they run in, and write there.
    """
    named = [name for name in environ if name.startswith("XDG_") and name.endswith("_HOME")]
    for name in ("HOME", CACHE_VARIABLE, STATE_VARIABLE, *sorted(named)):
        value = environ.get(name)
        if value is None or (not value and name != "HOME"):
            continue
        own = name in (CACHE_VARIABLE, STATE_VARIABLE) and (value == "~" or value.startswith("~/"))
        if not own and not Path(value).is_absolute():
            raise RehearsalError(f"{name}: found {value!r}; allowed: an absolute path; set it to one, or unset it")


def named_directory(variable: str) -> Path | None:
    """Return the directory that `variable` names, None when it is unset or empty. Raises RehearsalError as `check_places`."""
    check_places(os.environ)
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None

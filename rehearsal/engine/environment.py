"""The environment of the engine in a rehearsal: its own state, no account, no download, no cluster of the user's."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rehearsal.engine.stacks import PASSPHRASE_VARIABLES
from rehearsal.engine.state import State
from rehearsal.errors import RehearsalError
from rehearsal.language_host import RUNNER_VARIABLE
from rehearsal.language_host.tether import PRELOAD_VARIABLE
from rehearsal.toolchain.pulumi import Toolchain


def engine_environment(
    environ: Mapping[str, str], state: State, toolchain: Toolchain, *, preload: Sequence[str] = ()
) -> dict[str, str]:
    """Return the variables for the engine and everything that it starts.

    The user's AWS_* and PULUMI_* are left out, save the passphrase: a rehearsal must reach neither an account nor a
    Pulumi backend by accident. `preload` names the modules that our language host imports ahead of the program.
    Raises RehearsalError when the passphrase file does not exist.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(("AWS_", "PULUMI_")) or name in PASSPHRASE_VARIABLES
    }
    # Uncompiled, the SDKs' modules cost several seconds in each process that imports them.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    directories = [Path(sys.executable).parent, toolchain.pulumi.parent]
    if toolchain.language_host is not None:
        directories.append(toolchain.language_host.parent)
    kept.update(
        PATH=os.pathsep.join([*map(str, directories), environ.get("PATH", os.defpath)]),
        VIRTUAL_ENV=sys.prefix,
        PULUMI_HOME=str(state.home),
        PULUMI_BACKEND_URL=f"file://{state.backend}",
        PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION="true",
        PULUMI_DISABLE_REGISTRY_RESOLVE="true",
        # A real provider on the user's PATH would come before a stand-in.
        PULUMI_IGNORE_AMBIENT_PLUGINS="true",
        PULUMI_SKIP_UPDATE_CHECK="true",
        PULUMI_SUPPRESS_NEO_LINK="true",
        # Makes --event-log available, from which the summary is taken.
        PULUMI_DEBUG_COMMANDS="true",
        AWS_ACCESS_KEY_ID="rehearsal",
        AWS_SECRET_ACCESS_KEY="rehearsal",  # noqa: S106 -- no account has it
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
        KUBECONFIG=os.devnull,
    )
    kept.update(_passphrase(environ, state))
    if toolchain.program_runner is not None:
        kept[RUNNER_VARIABLE] = str(toolchain.program_runner)
        kept[PRELOAD_VARIABLE] = " ".join(preload)
    return kept


def _passphrase(environ: Mapping[str, str], state: State) -> dict[str, str]:
    value, file = (environ.get(name) for name in PASSPHRASE_VARIABLES)
    if value is not None:
        return {}
    if file:
        if not Path(file).is_file():
            raise RehearsalError(
                f"{PASSPHRASE_VARIABLES[1]}: {file!r} is not a file; "
                "name a readable file, or unset it for a passphrase of the rehearsal's own"
            )
        return {}
    if not state.passphrase.exists():
        partial = state.passphrase.with_name(f".passphrase.{os.getpid()}")
        partial.touch(mode=0o600)
        partial.write_text(secrets.token_urlsafe(32), encoding="utf-8")
        try:
            os.link(partial, state.passphrase)
        except FileExistsError:
            # Another run of this checkout was faster: its passphrase is the one.
            return {PASSPHRASE_VARIABLES[1]: str(state.passphrase)}
        finally:
            partial.unlink()
    return {PASSPHRASE_VARIABLES[1]: str(state.passphrase)}

"""The stacks of the project, and the copy of a stack's settings that the engine may write to."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from rehearsal.engine.state import State
from rehearsal.errors import RehearsalError

PASSPHRASE_VARIABLES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")

_SALT = re.compile(r"^encryptionsalt:.*\n?", re.MULTILINE)
_CLOUD_KEY = re.compile(r"^(?:secretsprovider|encryptedkey):.*\n?", re.MULTILINE)
_PROVIDER = re.compile(r"^secretsprovider:\s*[\"']?([^\"'\s]+)", re.MULTILINE)
_SECRET_VALUE = re.compile(r"\bsecure:\s")
_PROJECT_NAME = re.compile(r"^name:\s*[\"']?([^\"'\s#]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of the project, with the settings file that the engine reads."""

    name: str
    project: str
    settings: Path

    def exists(self, state: State) -> bool:
        """Return whether the file backend knows the stack."""
        return bool(self._files(state))

    def forget(self, state: State) -> bool:
        """Remove what the file backend knows of the stack, resources and all; return whether there was anything."""
        files = self._files(state)
        for file in files:
            file.unlink()
        return bool(files)

    def _files(self, state: State) -> list[Path]:
        directory = state.backend / ".pulumi" / "stacks" / self.project
        return [file for suffix in ("", ".gz", ".zst") if (file := directory / f"{self.name}.json{suffix}").exists()]


def stack_config(project: Path, name: str) -> Mapping[str, object]:
    """Return the settings in the file of stack `name`, by their keys with a namespace."""
    document: dict[str, dict[str, object]] = yaml.safe_load(_read_mapping(project / f"Pulumi.{name}.yaml")) or {}
    return document.get("config") or {}


def stack_names(project: Path) -> list[str]:
    """Return the names of the stacks that have a settings file in the project, sorted."""
    return sorted(
        path.name.removeprefix("Pulumi.").removesuffix(".yaml")
        for path in project.glob("Pulumi.*.yaml")
        if path.is_file()
    )


def prepare_stack(
    project: Path, name: str, state: State, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Stack:
    """Copy Pulumi.yaml and the settings of stack `name` into the state and return the stack.

    `overrides` replace settings in the copy, by key without the project's name.

    The engine keeps the salt of its secrets in the settings file; it goes into the copy and stays there, so the file in
    the project is never written. Raises RehearsalError for an unknown stack, for a file that
    is no YAML mapping, and for secrets that cannot be opened here.
    """
    names = stack_names(project)
    if name not in names:
        raise RehearsalError(
            f"stack {name}: no Pulumi.{name}.yaml; there are {', '.join(names) or 'no stacks'}: choose one with STACK=NAME"
        )
    description = _read_mapping(project / "Pulumi.yaml")
    found = _PROJECT_NAME.search(description)
    if found is None:
        raise RehearsalError(f"{project / 'Pulumi.yaml'}: no `name:` in it; write the project's name there")
    settings = state.project / f"Pulumi.{name}.yaml"
    text = _overridden(_read_mapping(project / settings.name), found.group(1), overrides or {})
    previous = settings.read_text(encoding="utf-8") if settings.exists() else ""
    _write(settings, _own_settings(text, previous, settings.name, environ))
    # `pulumi stack init` runs in this directory, where it may write.
    _write(state.project / "Pulumi.yaml", description)
    return Stack(name, found.group(1), settings)


def _read_mapping(path: Path) -> str:
    """Return the text of a YAML file that holds a mapping or nothing."""
    try:
        text = path.read_text(encoding="utf-8")
        document: object = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise RehearsalError(
            f"{path}: found bytes that are not UTF-8 at offset {error.start}; save it as UTF-8"
        ) from error
    except yaml.YAMLError as error:
        raise RehearsalError(f"{path}: not YAML: {' '.join(str(error).split())}; mend it there") from error
    if document is not None and not isinstance(document, dict):
        raise RehearsalError(
            f"{path}: found a YAML {type(document).__name__}; allowed: a mapping, as `config:` with its keys below"
        )
    return text


def _overridden(text: str, project: str, overrides: Mapping[str, object]) -> str:
    if not overrides:
        return text
    document: dict[str, dict[str, object]] = yaml.safe_load(text) or {}
    document.setdefault("config", {}).update({f"{project}:{key}": value for key, value in overrides.items()})
    # Without a width a long value would be folded, and the salt has to stay in its line.
    return cast(Any, yaml).safe_dump(document, sort_keys=False, width=sys.maxsize)


def _own_settings(text: str, previous: str, file_name: str, environ: Mapping[str, str]) -> str:
    """Return the settings with a salt that the engine can open with the passphrase in use."""
    provider = _PROVIDER.search(text)
    if provider is not None and provider.group(1) not in ("passphrase", "default"):
        if _SECRET_VALUE.search(text):
            raise RehearsalError(
                f"{file_name}: its secrets are held by {provider.group(1)}, which a rehearsal cannot reach; "
                "rehearse a stack whose secrets are opened by a passphrase, or has none"
            )
        text = _SALT.sub("", _CLOUD_KEY.sub("", text))
    elif _SALT.search(text):
        if not any(name in environ for name in PASSPHRASE_VARIABLES):
            raise RehearsalError(
                f"{file_name}: holds an encryptionsalt, and no passphrase is set; allowed {' or '.join(PASSPHRASE_VARIABLES)}: "
                "export the one that the stack was made with"
            )
        return text
    salt = _SALT.search(previous)
    return f"{text.rstrip()}\n{salt.group(0)}" if salt else text


def _write(path: Path, text: str) -> None:
    # Another run of this checkout may be reading it: whole or not at all.
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)

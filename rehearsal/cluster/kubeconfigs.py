"""Kubeconfig files: where a cluster is, and as whom to talk to it."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

from rehearsal.cluster.certificates import KeyPair

NAME = "rehearsal"


def kubeconfig(endpoint: str, authority: bytes, user: str, pair: KeyPair) -> dict[str, object]:
    """Return a kubeconfig that needs no other file; `authority` is the PEM certificate that signed the server's."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": endpoint, "certificate-authority-data": _base64(authority)}}],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _base64(pair.certificate),
                    "client-key-data": _base64(pair.key),
                },
            }
        ],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": user}}],
        "current-context": NAME,
    }


def write_kubeconfig(path: Path, document: dict[str, object]) -> Path:
    """Write a kubeconfig that only its owner may read, whole or not at all. JSON is YAML to its readers."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
    partial.replace(path)
    return path


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()

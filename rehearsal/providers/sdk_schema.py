"""Which properties a resource has, read from the installed Python SDK.

The SDK's source is read as text: importing pulumi_aws.ec2 takes seconds, and a preview has none to spare. Read are the getters of
the Args classes (inputs; optional or not), of nested Args classes, and of the resource classes (outputs; optional or not).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

TypeKind = Literal["text", "number", "flag", "list", "map", "block", "asset", "any"]

_GETTER = re.compile(
    r'    @pulumi\.getter(?:\(name="(?P<name>\w+)"\))?\n(?:(?!    def ).*\n)*?    def (?P<attribute>\w+)\(self\) -> (?P<type>.+):\n'
)
_SCALARS: dict[str, TypeKind] = {"str": "text", "int": "number", "float": "number", "bool": "flag", "Any": "any"}
_WRAPPERS = ("Input", "Output", "Optional")


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a property; `element` of lists and maps, `block` names the Args class of an object."""

    kind: TypeKind
    element: Type | None = None
    package: str = ""
    block: str = ""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a resource or of a nested block."""

    name: str
    type: Type
    required: bool


@dataclass(frozen=True, slots=True)
class ResourceSchema:
    """A resource's inputs and outputs by name; a required output is one that is always there after creation."""

    inputs: Mapping[str, Property]
    outputs: Mapping[str, Property]


@cache
def resource_schema(token: str) -> ResourceSchema:
    """Read the schema of a resource type such as `aws:ec2/vpc:Vpc` or `eks:index:Cluster`.

    Raises:
        LookupError: the installed SDK has no such type.
    """
    package, module, name = token.split(":")
    folder, _, file = module.partition("/")
    if folder == "index":
        folder = ""
    file = _snake(file or name)
    home = f"pulumi_{package}" + (f".{folder}" if folder else "")
    path = _package_folder(package) / folder / f"{file}.py"
    if not path.is_file():
        raise LookupError(f"{token}: pulumi-{package} {version(f'pulumi-{package}')} has no such resource type")
    source = _read(path)
    # The generator says InitArgs where a nested block already took the plain name.
    arguments = f"{name}InitArgs" if f"class {name}InitArgs:" in source else f"{name}Args"
    return ResourceSchema(
        inputs=_properties(_class_source(source, arguments), home),
        outputs=_properties(_class_source(source, name), home),
    )


@cache
def block_schema(package: str, block: str) -> Mapping[str, Property]:
    """Read the properties of a nested block: an Args class of `package`, such as pulumi_aws.ec2.

    Raises:
        LookupError: there is no such class.
    """
    root, _, folder = package.partition(".")
    path = _package_folder(root.removeprefix("pulumi_")) / folder / "_inputs.py"
    return _properties(_class_source(_read(path), block), package)


@cache
def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _package_folder(package: str) -> Path:
    spec = find_spec(f"pulumi_{package}")
    if spec is None or spec.origin is None:
        raise LookupError(f"the Python package pulumi-{package} is not installed")
    return Path(spec.origin).parent


def _class_source(source: str, name: str) -> str:
    start = re.search(rf"^class {name}(?:\(.*\))?:$", source, re.MULTILINE)
    if start is None:
        raise LookupError(f"the SDK has no class {name}")
    end = re.compile(r"^(?:class |@pulumi)", re.MULTILINE).search(source, start.end())
    return source[start.end() : end.start() if end else len(source)]


def _properties(source: str, package: str) -> dict[str, Property]:
    found: dict[str, Property] = {}
    for getter in _GETTER.finditer(source):
        name = getter["name"] or getter["attribute"]
        tree = ast.parse(getter["type"], mode="eval").body
        found[name] = Property(name, _type(tree, package), required=not _optional(tree))
    return found


def _optional(node: ast.expr) -> bool:
    if not isinstance(node, ast.Subscript):
        return False
    return _last_name(node.value) == "Optional" or (_last_name(node.value) in _WRAPPERS and _optional(node.slice))


def _type(node: ast.expr, package: str) -> Type:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _named(node.value, package)
    if isinstance(node, ast.Subscript):
        name = _last_name(node.value)
        if name in _WRAPPERS:
            return _type(node.slice, package)
        if name == "Sequence":
            return Type("list", _type(node.slice, package))
        if name == "Mapping" and isinstance(node.slice, ast.Tuple):
            return Type("map", _type(node.slice.elts[1], package))
        if name == "Union" and isinstance(node.slice, ast.Tuple):
            # Unions are a text and its enumeration, an asset and an archive, or an Args class and its dict form.
            options = [_type(option, package) for option in node.slice.elts]
            block = next((option for option in options if option.kind == "block"), None)
            if block is None:
                return options[0]
            # A policy document may be given as text or as an object.
            return Type("any") if any(option.kind == "text" for option in options) else block
    name = _last_name(node)
    if name in ("Asset", "Archive"):
        return Type("asset")
    return Type(_SCALARS.get(name, "any"))


def _named(name: str, package: str) -> Type:
    home, _, last = name.rpartition(".")
    if last.endswith("ArgsDict"):
        last = last.removesuffix("Dict")
    if not last.endswith("Args"):
        # An enumeration or a resource class: the value is a text, or what a resource reference turned into.
        return Type("any") if home or package == "pulumi_eks" else Type("text")
    if home.startswith("_"):
        # An import of a sister module: `_iam.PolicyDocumentArgs`.
        home = f"{package.split('.')[0]}.{home.removeprefix('_')}"
    return Type("block", package=home or package, block=last)


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@cache
def sdk_version(package: str) -> str:
    """Give the version of the installed SDK, which is that of the plugin it belongs to."""
    return version(f"pulumi-{package}")

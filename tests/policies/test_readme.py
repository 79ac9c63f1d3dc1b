from pathlib import Path

from policies.pack import RULES
from policies.rules import ResourceRule, Rule

README = Path(__file__).resolve().parents[2] / "policies" / "README.md"


def row(rule: Rule) -> str:
    level = "advisory" if rule.advisory else "mandatory"
    checked = "before" if isinstance(rule, ResourceRule) else "whole"
    return f"| `{rule.id}` | {level} | {checked} | {rule.what} | {rule.why} | {rule.fix} |"


def test_the_readme_lists_every_rule_as_it_is() -> None:
    rows = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows == [row(rule) for rule in RULES]


def test_every_rule_is_in_a_module_of_the_pack() -> None:
    modules = [path for path in README.parent.glob("*.py") if "\nRULES = (" in path.read_text(encoding="utf-8")]
    listed = (README.parent / "pack.py").read_text(encoding="utf-8")
    assert [path.stem for path in modules if f"*{path.stem}.RULES" not in listed] == []
    assert len({rule.id for rule in RULES}) == len(RULES)

"""The reference page of experiment configs, made from the table of keys.

``python -m det_compat.config.reference > docs/experiment-config.md``. What stands before the tables
is ``reference.md`` beside this module.
"""

from pathlib import Path

from det_compat.config.keys.table import SECTIONS, Key

_COLUMNS = "| key | value | since | | what it becomes, or why it does not |\n|---|---|---|---|---|"


def render() -> str:
    """The page, in Markdown."""
    parts = [Path(__file__).with_suffix(".md").read_text("utf-8")]
    for section, keys in SECTIONS.items():
        title = f"`{section}`" if section else "The config itself"
        prefix = f"{section}." if section else ""
        rows = [_row(f"{prefix}{name}", key) for name, key in keys.items()]
        parts.append("\n".join([f"## {title}", "", _COLUMNS, *rows]) + "\n")
    return "\n".join(parts)


def _row(path: str, key: Key) -> str:
    kind = key.kind.name.replace("|", "\\|")
    return f"| `{path}` | {kind} | {key.versions} | {key.fate.value} | {key.becomes} |"


if __name__ == "__main__":
    print(render(), end="")

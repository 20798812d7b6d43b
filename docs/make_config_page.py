"""Makes the tables of ``experiment-config.md`` again, from the table of all keys.

``python docs/make_config_page.py``; what stands before the tables stays as it is.
"""

from pathlib import Path

from det_compat.config.keys.table import SECTIONS, Key

PAGE = Path(__file__).with_name("experiment-config.md")
_FIRST = "## The config itself\n"
_COLUMNS = "| key | value | since | | what it becomes, or why it does not |\n|---|---|---|---|---|"


def render() -> str:
    """The page, in Markdown."""
    parts = [PAGE.read_text("utf-8").partition(_FIRST)[0].removesuffix("\n")]
    for section, keys in SECTIONS.items():
        title = f"## `{section}`\n" if section else _FIRST
        prefix = f"{section}." if section else ""
        rows = [_row(f"{prefix}{name}", key) for name, key in keys.items()]
        parts.append("\n".join([title, _COLUMNS, *rows]) + "\n")
    return "\n".join(parts)


def _row(path: str, key: Key) -> str:
    kind = key.kind.name.replace("|", "\\|")
    return f"| `{path}` | {kind} | {key.versions} | {key.fate.value} | {key.becomes} |"


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")

"""How to install what only some users need."""

import contextlib
import importlib.metadata
import json
import shlex
from typing import Any
from urllib.parse import unquote, urlsplit


def how_to_install(extra: str) -> str:
    """The command that installs an extra from where det_compat itself came from.

    det_compat is on no package index, where a stranger could take its name.
    """
    source = _source()
    if source is None:
        command = f"pip install '.[{extra}]' in a checkout of det_compat"
    elif "dir_info" in source:
        folder = shlex.quote(f"{unquote(urlsplit(source['url']).path)}[{extra}]")
        editable = "-e " if source["dir_info"].get("editable") else ""
        command = f"pip install {editable}{folder}"
    else:
        vcs = source.get("vcs_info", {})
        at = f"@{vcs['commit_id']}" if "commit_id" in vcs else ""
        kind = f"{vcs['vcs']}+" if "vcs" in vcs else ""
        command = f"pip install 'det-compat[{extra}] @ {kind}{source['url']}{at}'"
    return f"{command} (det_compat is on no package index)"


def too_old(extra: str) -> list[str]:
    """What an extra asks for, and is installed in another version, such as ``ray>=2.43 (2.9)``.

    Nothing, where det_compat was not installed and so nobody noted what it asks for.
    """
    from packaging.requirements import Requirement

    found = []
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for text in importlib.metadata.requires("det-compat") or []:
            wanted = Requirement(text)
            if wanted.marker is None or not wanted.marker.evaluate({"extra": extra}):
                continue
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                version = importlib.metadata.version(wanted.name)
                if not wanted.specifier.contains(version, prereleases=True):
                    found.append(f"{wanted.name}{wanted.specifier} ({version} is installed)")
    return found


def _source() -> dict[str, Any] | None:
    """What pip noted of where it installed det_compat from (PEP 610); None for nothing."""
    # A checkout that Python runs in has metadata of its own, in which pip noted nothing.
    for found in importlib.metadata.distributions(name="det-compat"):
        if noted := found.read_text("direct_url.json"):
            source: dict[str, Any] = json.loads(noted)
            return source
    return None

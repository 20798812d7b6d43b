"""Secrets: their names, what they look like, and plain values without them.

The words in names are those of detect-secrets 1.5 and of the options of storages; the looks of
tokens are those that their issuers publish.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

MASK = "********"

# A name with one of these in it is a secret's, as PGPASSWORD is ...
_PARTS = ("apikey", "contrasena", "contraseña", "passcode", "passphrase", "passwd", "password")
# ... as is one with one of these words, and with what follows as one word ...
_WORDS = {"pwd", "secret", "secrets"}
# ... as is one that ends with one of these ...
_LAST_WORDS = {
    *("auth", "authorization", "bearer", "cookie", "cookies", "cred", "credential", "credentials"),
    *("creds", "jwt", "token"),
}
# ... or with one of `_KEYS` after one of these, or `string` after `connection`.
_BEFORE_KEY = {
    *("access", "account", "api", "auth", "client", "consumer", "database", "db", "deploy"),
    *("encryption", "key", "master", "priv", "private", "secret", "service", "shared", "sign"),
    *("signing", "ssh", "storage", "subscription"),
}
_KEYS = ("key", "keys", "pass")
_WORDS |= {start + end for start in _BEFORE_KEY for end in _KEYS}
# These words say that a name is about a secret, and does not hold it.
_ABOUT = {
    *("dim", "enabled", "env", "file", "id", "length", "max", "min", "name", "path", "policy"),
    *("required", "size", "ttl", "type", "url", "vocab"),
}
# Tokens that tokenizers have.
_TOKENS_OF_TEXT = {
    *("bos", "cls", "end", "eos", "image", "mask", "pad", "patch", "prompt", "sep", "special"),
    *("start", "stop", "text", "unk", "unknown"),
}
_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![a-z])")

# The look-behinds keep searches linear: a text is not searched again from within a word.
_LOOKS = re.compile(
    r"""
    (?<![\w-])(?:
        (?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b                   # Amazon
        | gh[pousr]_\w{36,} | github_pat_\w{22,}                # GitHub
        | glpat-[\w-]{20,}                                      # GitLab
        | hf_[A-Za-z0-9]{30,}                                   # Hugging Face
        | sk-[\w-]{20,} | [rs]k_live_\w{24,}                    # OpenAI and others, Stripe
        | AIza[\w-]{35} | ya29\.[\w-]{20,}                      # Google
        | xox[abposr]-[\w-]{10,}                                # Slack
        | npm_\w{36} | pypi-[\w-]{50,}                          # package registries
        | SG\.[\w-]{22}\.[\w-]{43}                              # SendGrid
        | eyJ[\w-]{10,}\.eyJ[\w-]{10,}(?:\.[\w-]+)?             # JSON Web Tokens
    )
    | (?<=hooks\.slack\.com/services/)[\w/]{20,} | (?<=/api/webhooks/)\d+/[\w-]{20,}
    | (?<=AccountKey=)[A-Za-z0-9+/=]{40,}                       # Azure
    | (?<=[Bb]earer[ ])[\w.~+/=-]{8,} | (?<=[Bb]asic[ ])[\w+/=]{8,}
    | -----BEGIN[ ](?:[A-Z0-9]+[ ])*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----
      (?:.*?-----END[ ](?:[A-Z0-9]+[ ])*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----|.*)
    """,
    re.VERBOSE | re.DOTALL,
)
# A key of another service, such as a wandb_key: a name that ends so, and what is no word.
_TOKEN = re.compile(r"(?=\D*\d)(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/=]{20,}")
_PASSWORD_IN_URL = re.compile(r"(?<=://)([^/\s:@'\"]*):[^/\s'\"]+@")
_IN_QUERY = re.compile(r"([?&])([\w.-]+)=([^&#\s'\"]+)")
_OPTION = re.compile(
    r"(?<![\w-])(--?[A-Za-z][\w.-]*|[A-Za-z_]\w*(?==))(=|\s+)"
    r"(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|'\"]+)"
)
# A text in quotes that is given a name, as Python, JSON, TOML and YAML write it.
_QUOTED = re.compile(
    r"(?<![\w-])(?P<name>[\w-]+)(?:['\"]\]?\s*[:=,]|\s*(?::[^:=\n]{0,60})?[:=])"
    r"[\s(]*(?:default\s*=\s*)?[bBrRuU]{0,2}(?P<quote>['\"]{3}|['\"])(?P<value>[^'\"\n]+)(?P=quote)"
)
# What YAML and settings files write without quotes.
_UNQUOTED = re.compile(
    r"(?:^|[{,])[ \t-]*(?P<name>\w[\w-]*)[ \t]*[:=][ \t]*"
    r"(?P<value>[^\s'\"#{\[,}][^\s#,}]*)[ \t]*(?=[,}]|$)",
    re.MULTILINE,
)
# What stands between a key and what is in it, unless it is empty.
_GAP = r"(?:[^\w\[\]{}]|\[(?!\s*\])|\{(?!\s*\}))+"
_VARIABLES = re.compile(
    rf"environment_variables['\"]?\s*:{_GAP}(?:(?:cpu|cuda|rocm)['\"]?\s*:{_GAP})?"
    r"\w+['\"]?\s*[=:]\s*[^\s,\]}]"
)
_POD_VARIABLE = re.compile(r"\bvalue['\"]?\s*:\s*['\"]?[^\s'\"]")


def is_secret_name(name: str) -> bool:
    """Whether a secret is kept under a name, such as ``hf_token`` or ``awsSecretAccessKey``."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT:
        return False
    if words[-1] == "token":
        return not _TOKENS_OF_TEXT & set(words)
    before, last = words[-2:-1], words[-1]
    return (
        last in _LAST_WORDS
        or not _WORDS.isdisjoint(words)
        or any(part in word for part in _PARTS for word in words)
        or (last == "string" and before == ["connection"])
        or any(end in _KEYS and start in _BEFORE_KEY for start, end in pairwise(words))
    )


def without_secrets(config: Any) -> Any:
    """A copy of ``config`` that has ``********`` in place of every secret; all else is kept.

    Secrets are values under names that ``is_secret_name`` knows, the values of
    ``environment_variables``, and of ``env`` in a ``pod_spec``, whose names are kept, all of
    ``registry_auth``, and within texts: passwords and signatures in URLs, options of commands with
    such names, and what looks like a token or a private key. Empty values and booleans stay as they
    are, and so do numbers under names that end with `token` or `auth`.

    Args:
        config: an experiment config, or a part of one, of plain types.
    """
    return _masked(config, in_pod=False)


def for_checkpoint(exp_conf: Any) -> Any:
    """An experiment config without secrets, but with its hyperparameters as they are.

    A trial that is loaded from a checkpoint gets them, and must get what it was trained with.
    """
    masked = without_secrets(exp_conf)
    if isinstance(exp_conf, Mapping) and "hyperparameters" in exp_conf:
        masked["hyperparameters"] = exp_conf["hyperparameters"]
    return masked


def holds_secrets(text: str, *, is_code: bool = False) -> bool:
    """Whether a text has something that looks like a secret.

    Args:
        text: the content of a source or settings file.
        is_code: whether it is a program, where only texts in quotes are values.
    """
    if _LOOKS.search(text) or _PASSWORD_IN_URL.search(text) or _in_queries(text) != text:
        return True
    found = _values(_QUOTED, text)
    if is_code:
        return any(_is_random(value) for value in found)
    found.extend(_values(_UNQUOTED, text))
    pod = text.find("pod_spec")
    return (
        any(_is_given(value) for value in found)
        or _VARIABLES.search(text) is not None
        or (pod >= 0 and _POD_VARIABLE.search(text, pod) is not None)
    )


def _values(assigned: re.Pattern[str], text: str) -> list[str]:
    """What is assigned to the names of secrets in a text."""
    return [
        match["value"]
        for match in assigned.finditer(text)
        if is_secret_name(match["name"]) or _is_token(match["name"], match["value"])
    ]


def _is_token(name: str, value: Any) -> bool:
    """Whether a value under a name such as ``wandb_key`` can be nothing but a secret."""
    if isinstance(value, Mapping):  # a constant of a config: {type: const, val: ...}
        value = value.get("val")
    is_key = isinstance(value, str) and name.lower().endswith("key")
    return is_key and _TOKEN.fullmatch(value) is not None


def _is_given(value: str) -> bool:
    """Whether a value is one, and not what stands for one, such as ``<your token>``."""
    return value.lower() not in ("null", "none", "true", "false") and not set(value) & set("<>${}*")


def _is_random(value: str) -> bool:
    """Whether a value in a program may be a secret: words and numbers alone are none."""
    kinds = (r"[A-Za-z]", r"\d")
    is_mixed = all(re.search(kind, value) for kind in kinds)
    return len(value) >= 8 and is_mixed and " " not in value and _is_given(value)


def _masked(value: Any, in_pod: bool) -> Any:
    if isinstance(value, Mapping):
        return {key: _masked_entry(key, item, in_pod) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_masked_items(value, in_pod))
    return _masked_text(value) if isinstance(value, str) else value


def _masked_items(items: Iterable[Any], in_pod: bool) -> list[Any]:
    masked: list[Any] = []
    option = ""
    for item in items:
        follows = option and isinstance(item, str) and not item.startswith("-")
        masked.append(MASK if follows else _masked(item, in_pod))
        is_option = isinstance(item, str) and re.fullmatch(r"--?[A-Za-z][\w.-]*", item)
        option = item if is_option and is_secret_name(item) else ""
    return masked


def _masked_text(text: str) -> str:
    text = _PASSWORD_IN_URL.sub(rf"\1:{MASK}@", _in_queries(text))
    text = _LOOKS.sub(MASK, text)
    return _OPTION.sub(_masked_option, text)


def _in_queries(text: str) -> str:
    def masked(match: re.Match[str]) -> str:
        name = match[2].lower()
        is_secret = name in ("sig", "signature", "x-amz-signature") or is_secret_name(name)
        return f"{match[1]}{match[2]}={MASK}" if is_secret else match[0]

    return _IN_QUERY.sub(masked, text) if "://" in text else text


def _masked_option(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}{MASK}" if is_secret_name(match[1]) else match[0]


def _masked_entry(key: Any, value: Any, in_pod: bool) -> Any:
    name = key if isinstance(key, str) else ""
    if name.lower() == "environment_variables":
        return _masked_variables(value)
    if name.lower() == "env" and in_pod and isinstance(value, list):
        return [_masked_pod_variable(variable) for variable in value]
    if _is_token(name, value) or (is_secret_name(name) and not _is_no_secret(name, value)):
        return MASK
    return _masked(value, in_pod or name.lower() == "pod_spec")


def _is_no_secret(name: str, value: Any) -> bool:
    """Whether a value is none, or a number where tokens may be meant that a text has."""
    if value is None or isinstance(value, bool) or value in ("", {}, []):
        return True
    return isinstance(value, (int, float)) and _WORD.findall(name.lower())[-1] in _LAST_WORDS


def _masked_variables(variables: Any) -> Any:
    """``NAME=value`` in lists, by device in mappings; or a mapping of names to values."""
    if isinstance(variables, Mapping):
        return {name: _masked_variables(value) for name, value in variables.items()}
    if isinstance(variables, (list, tuple)):
        return [_masked_assignment(item) for item in variables]
    return MASK if variables is not None else None


def _masked_assignment(assignment: Any) -> Any:
    if not isinstance(assignment, str):
        return _masked_variables(assignment)
    name, equals, _ = assignment.partition("=")
    return f"{name}{equals}{MASK}" if equals else name


def _masked_pod_variable(variable: Any) -> Any:
    if isinstance(variable, Mapping) and "value" in variable:
        return {**variable, "value": MASK}
    return variable

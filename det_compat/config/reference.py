"""The reference page of experiment configs, made from the table of keys.

``python -m det_compat.config.reference > docs/experiment-config.md``
"""

from __future__ import annotations

from det_compat.config.keys.table import Key, keys

_INTRODUCTION = """\
# Experiment configs

Every key that an experiment config of PEDL or Determined 0.12 to 0.38 may have, and what becomes of
it on one machine. `det-compat config explain CONFIG.yaml` says the same about one file.

This page is made from the table that configs are checked against:
`python -m det_compat.config.reference > docs/experiment-config.md`.

- *mapped*: it has its effect here.
- *ignored*: it only makes sense on a cluster, or has no effect any more; it is listed once.
- *refused*: it asks for what cannot be done here.

Keys without a value are as good as absent. Unknown keys, values of another type, and contradictions
are errors, all of them listed with file, line and column. «Since» is the first version that is
known to have had the key, and the last if it was taken away.

## How YAML is read

As Determined's master read it (go-yaml 2): `1e-4`, `1E4` and `.5` are numbers, `1_000` is 1000,
`0x10` and `0o20` are 16, and so is `020`; `yes`, `on` and `y` are true, `no`, `off` and `n` false;
dates and `1:30` are text. Where a whole number is asked for, `64.0` and `1e2` are whole. Keys are
text. Anchors and merge keys work; a key given twice, a second document, `.nan` and `.inf` are not
allowed.

One difference: on a cluster a trial got the hyperparameter `1.0` as the int 1, for the master wrote
JSON as Go does. Here it stays the float 1.0.

## Lengths

A length is `{batches: N}`, `{records: N}` or `{epochs: N}`. Records are counted in batches of the
hyperparameter `global_batch_size` (`batch_size` times the slots, in PEDL): the rest of the division
is dropped, and less than a batch is one. A period of 0 is never. A bare number as a period,
`max_steps`, `target_trial_steps` and `step_budget` count steps of 100 batches, or of
`batches_per_step`. A bare `max_length` is in a unit that only the script knows.

## Hyperparameters

A mapping with `type` is a constant (`const`, with `val`) or a range to search: `int`, `double`
(both with `minval` and `maxval`, both ends included), `log` (these are exponents of `base`) and
`categorical` (with `vals`). `count` is the number of grid points. Other mappings nest; everything
else, lists and what is in them included, is a constant.
"""

_HEADINGS = {
    "": "The config itself",
    "searcher": "searcher",
    "checkpoint_storage": "checkpoint_storage",
    "optimizations": "optimizations",
    "resources": "resources",
    "environment": "environment",
    "profiling": "profiling",
    "reproducibility": "reproducibility",
}
_COLUMNS = "| key | value | since | | what it becomes, or why it does not |\n|---|---|---|---|---|"


def render() -> str:
    """The page, in Markdown."""
    parts = [_INTRODUCTION]
    for section, heading in _HEADINGS.items():
        rows = [_row(key) for key in keys().values() if key.path.rpartition(".")[0] == section]
        title = f"`{heading}`" if section else heading
        parts.append("\n".join([f"## {title}", "", _COLUMNS, *rows]) + "\n")
    return "\n".join(parts)


def _row(key: Key) -> str:
    kind = key.kind.name.replace("|", "\\|")
    return f"| `{key.path}` | {kind} | {key.versions} | {key.fate.value} | {key.becomes} |"


if __name__ == "__main__":
    print(render(), end="")

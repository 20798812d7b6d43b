from __future__ import annotations

import sys

import pytest

from det_compat.cli import main
from tests.migrate.rewriting import method, rewritten, trial
from tests.preloaded import executable

INIT = "        self.context = context\n"
LOADER = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
CONFIG = """\
entrypoint: model_def:Trial
searcher: {name: single, metric: error, max_length: {batches: 4}}
hyperparameters: {global_batch_size: 4, hf_token: abc}
data: {url: u, password: xyz}
"""
ASKING = trial(
    (INIT, f"{INIT}        self.data_config = context.get_data_config()\n"),
    (
        "    def build_training",
        "    def rows(self):\n"
        '        print(self.data_config["password"], self.context.get_hparam("hf_token"))\n'
        "        return torch.ones(8, 2)\n\n    def build_training",
    ),
    (LOADER, LOADER.replace("[]", "self.rows()")),
    ("DataLoader([], batch_size=4)", "DataLoader(self.rows(), batch_size=4)"),
)


def test_what_is_secret_is_not_saved(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    path = tmp_path / "model_def.py"
    path.write_text(ASKING)
    (tmp_path / "const.yaml").write_text(CONFIG)
    command = ["migrate", str(tmp_path), "--to", "lightning", "--write", "--force"]
    assert main([*command, "--verify", "--batches", "4"]) == 0
    assert "verified: 4 batches" in capsys.readouterr().out
    made = path.read_text()
    assert "abc" not in made
    assert 'self.save_hyperparameters(ignore=["hf_token", "data_config"])' in made
    said = "# no checkpoint has what may be secret: load_from_checkpoint() has to be given it"
    kept = "self.hf_token = hf_token\n        self.data_config = data_config\n"
    assert f"        {said}\n        {kept}" in made
    assert "hparams.data_config" not in made and "hparams.hf_token" not in made


@pytest.mark.parametrize(
    "change",
    [
        ('self.context.get_hparam("hf_token")', "dict(self.context.get_hparams())"),
        ("        return torch.ones", "        self.hf_token = 'b'\n        return torch.ones"),
        ("class Trial", "def ask(module):\n    return module.hf_token\n\n\nclass Trial"),
    ],
)
def test_what_is_asked_for_otherwise_is_said_to_be_saved(tmp_path, change):
    (tmp_path / "const.yaml").write_text(CONFIG)
    assert change[0] in ASKING
    init = method(rewritten(tmp_path, ASKING.replace(*change)), "__init__")
    assert "# checkpoints and loggers get what is secret among these: hf_token, data_config" in init
    assert 'ignore=["hf_token"' not in init

from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial


@pytest.mark.parametrize(
    "heir", ["pass", "def __init__(self, context):\n        super().__init__(context)"]
)
def test_a_mixin_that_hands_on_what_it_is_given_has_its_own_apart(heir, tmp_path):
    mixin = """\
class Smooth:
    def __init__(self, *args, share=0.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.own, self.share = share, self.context.get_hparams().get("share", share)


class Base("""
    source = trial(("class Trial(", mixin)) + "\n\nclass Trial(Smooth, Base):\n    "
    source += f"{heir}\n"
    (tmp_path / "const.yaml").write_text(
        "entrypoint: model_def:Trial\nhyperparameters: {global_batch_size: 4, share: 0.5}\n"
        "searcher: {name: single, metric: error, max_length: {batches: 4}}\n"
    )
    made = rewritten(tmp_path, source)
    assert "MIGRATE" not in made
    names: dict = {}
    exec(made, names)
    module = names["Trial"](global_batch_size=4, share=0.5)
    assert (module.own, module.share, module.hparams["share"]) == (0.0, 0.5, 0.5)

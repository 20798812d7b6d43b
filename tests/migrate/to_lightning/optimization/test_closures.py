from __future__ import annotations

import pytest
import pytorch_lightning as pl

from tests.migrate.rewriting import rewritten, trial

PLAIN = "torch.optim.SGD(self.model.parameters(), lr=0.1)"
AROUND = """\
class Scaled:
    def __init__(self, inner):
        self.inner = inner

    def step({}):
        self.inner.step()


def scaled(inner):
    made = Scaled(inner)
    return made


class Trial("""
NONE, UNKNOWN = "of {}, which takes none", "of {}, and it is not known"


@pytest.mark.parametrize(
    ("step", "made", "said"),
    [
        ("self", f"Scaled({PLAIN})", NONE.format("Scaled")),
        ("self", f"scaled({PLAIN})", NONE.format("Scaled")),
        ("self, closure=None", f"Scaled({PLAIN})", ""),
        ("self, **more", f"scaled({PLAIN})", ""),
        ("self", f"apex.LARC({PLAIN})", UNKNOWN.format("LARC")),
        ("self", f"apex.LARC(optimizer={PLAIN})", UNKNOWN.format("LARC")),
        ("self", PLAIN.replace("torch.optim.SGD", "apex.FusedAdam"), ""),
        ("self", PLAIN.replace("self.model.", "apex.make_optim(self.model)."), ""),
    ],
)
def test_an_optimizer_without_a_closure_is_marked(step, made, said, tmp_path):
    around = ("class Trial(", f"import apex\n\n\n{AROUND.format(step)}")
    after = rewritten(tmp_path, trial((PLAIN, made), around))
    assert ("# MIGRATE: Lightning calls step(closure=...)" in after) is bool(said)
    assert said in after


def test_one_that_may_be_around_another_is_marked(tmp_path):
    kept = (f"self.opt = context.wrap_optimizer({PLAIN})", "self.opt = context.wrap_optimizer(opt)")
    made = (
        "        self.opt =",
        f"        opt = {PLAIN}\n        if self.context.get_hparam('lars'):\n"
        "            opt = LARC(optimizer=opt)\n        self.opt =",
    )
    after = rewritten(
        tmp_path, trial(kept, made, ("class Trial(", "from lars import LARC\n\nclass Trial("))
    )
    assert UNKNOWN.format("LARC") in after


OWN = """\
class Own(torch.optim.SGD):
    @torch.no_grad()
    def step({}):
        \"\"\"Steps against the sign.\"\"\"
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad.sign(), alpha=group["lr"])


class Trial("""
GIVEN = """\
        if closure is not None:
            with torch.enable_grad():
                closure()
"""


@pytest.mark.parametrize(
    ("step", "made"),
    [
        ("self", "self, closure=None"),
        ("self, scale=1.0", "self, scale=1.0, closure=None"),
        ("self, *, scale=1.0", "self, *, scale=1.0, closure=None"),
    ],
)
def test_an_optimizer_of_the_project_gets_a_closure(step, made, tmp_path):
    change = ("torch.optim.SGD(self", "Own(self")
    after = rewritten(tmp_path, trial(("class Trial(", OWN.format(step)), change))
    docstring = '        """Steps against the sign."""\n'
    assert f"    def step({made}):\n{docstring}{GIVEN}        for group" in after
    assert "MIGRATE" not in after
    assert "automatic_optimization = False" not in after


def test_the_closure_trains(tmp_path):
    names: dict[str, type[pl.LightningModule]] = {}
    data = ("DataLoader([]", "DataLoader(torch.ones(8, 2)")
    source = trial(data, ("class Trial(", OWN.format("self")), ("torch.optim.SGD(self", "Own(self"))
    exec(rewritten(tmp_path, source), names)
    module = names["Trial"](global_batch_size=4)
    before = module.model.weight.detach().clone()
    flags = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    pl.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **flags).fit(module)
    # Two steps of one size each, in whatever direction.
    steps = {round(abs(each), 5) for each in (module.model.weight - before).flatten().tolist()}
    assert steps <= {0.0, 0.2}
    assert steps != {0.0}


@pytest.mark.parametrize("step", ["self, grads", "self, *, grads"])
def test_an_optimizer_whose_step_needs_more_is_marked(step, tmp_path):
    changes = ("class Trial(", OWN.format(step)), ("torch.optim.SGD(self", "Own(self")
    assert NONE.format("Own") in rewritten(tmp_path, trial(*changes))


def test_an_optimizer_that_has_a_closure_of_its_own_is_marked(tmp_path):
    body = OWN.format("self").replace('"""Steps', 'closure = 1\n        """Steps')
    change = ("torch.optim.SGD(self", "Own(self")
    assert NONE.format("Own") in rewritten(tmp_path, trial(("class Trial(", body), change))


def test_a_scheduler_of_the_project_is_no_optimizer(tmp_path):
    warmup = "class Warmup(torch.optim.lr_scheduler.LambdaLR):\n    def step(self, epoch=None):\n"
    change = ("class Trial(", f"{warmup}        super().step(epoch)\n\n\nclass Trial(")
    after = rewritten(tmp_path, trial(change))
    assert "    def step(self, epoch=None):\n        super()" in after
    assert "automatic_optimization = False" not in after

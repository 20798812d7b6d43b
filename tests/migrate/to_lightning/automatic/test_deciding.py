from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

INIT = "self.context = context\n"
RETURN = '        return {"loss": loss}'


@pytest.mark.parametrize(
    ("init", "after"),
    [
        pytest.param("self.n = 0", "self.n += 1", id="a counter"),
        pytest.param("self.bar = Bar()", "self.bar.update(batch_idx)", id="an object of its own"),
        pytest.param("", 'print(self.opt.param_groups[0]["lr"])', id="the learning rate"),
        pytest.param("", 'print(self.context.get_hparam("a"))', id="a hyperparameter"),
        pytest.param("", "print(self.context.distributed.get_rank())", id="the rank"),
        pytest.param("", "print(self.context.is_epoch_end())", id="where it is"),
    ],
)
def test_what_no_step_changes_may_come_after_it(tmp_path, init, after):
    changes = ((INIT, f"{INIT}        {init}\n"), (RETURN, f"        {after}\n{RETURN}"))
    made = rewritten(tmp_path, trial(*changes))
    assert "automatic_optimization" not in made
    assert method(made, "training_step").endswith("return loss")


@pytest.mark.parametrize(
    ("init", "after"),
    [
        pytest.param("", "self.model(batch)", id="the model"),
        pytest.param("", "print(self)", id="the trial"),
        pytest.param("", "print(self.context)", id="the context"),
        pytest.param("", "print(self.context.models)", id="the models of the context"),
        pytest.param("self.t = torch.nn.Parameter(2)", "print(self.t)", id="a parameter"),
        pytest.param("self.ema = Ema(self.model)", "self.ema.update()", id="what has the model"),
        pytest.param("self.ema = Ema(self.wrap())", "self.ema.update()", id="what may have it"),
        pytest.param("self.loss = L(self.model)", "self.loss(batch)", id="a name as the loss's"),
        pytest.param("", "print(self.opt.param_groups)", id="the parameters"),
        pytest.param("", 'self.opt.param_groups[0]["lr"] = 1', id="a learning rate that is set"),
    ],
)
def test_what_a_step_changes_keeps_it_where_it_is(tmp_path, init, after):
    own = "    def wrap(self):\n        return self.model\n\n    def evaluate_batch"
    changes = (
        ("lr=0.1))\n", f"lr=0.1))\n        {init}\n"),
        (RETURN, f"        {after}\n{RETURN}"),
        ("    def evaluate_batch", own),
    )
    assert "self.automatic_optimization = False" in rewritten(tmp_path, trial(*changes))


@pytest.mark.parametrize(
    ("decorator", "result", "is_automatic"),
    [
        ("property", "self.most * 2", True),
        ("property", "self.model.weight", False),
        ("kept", "2", False),
    ],
)
def test_a_property_is_what_it_returns(decorator, result, is_automatic, tmp_path):
    own = f"    @{decorator}\n    def beta(self):\n        return {result}\n\n"
    changes = (
        (INIT, f"{INIT}        self.most = 1\n"),
        ("        loss =", "        beta = self.beta\n        loss ="),
        (RETURN, '        return {"loss": loss, "beta": beta}'),
        ("    def evaluate_batch", f"{own}    def evaluate_batch"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert ("self.automatic_optimization = False" not in made) is is_automatic


def test_what_an_optimizer_is_given_is_changed_by_its_steps(tmp_path):
    made = rewritten(
        tmp_path,
        trial(
            ("SGD(self.model.parameters(),", "SGD([*self.model.parameters(), self.scale],"),
            (RETURN, f"        print(self.scale)\n{RETURN}"),
        ),
    )
    assert "self.automatic_optimization = False" in made


def test_gradients_that_are_zero_already(tmp_path):
    change = ("        loss = self", "        self.opt.zero_grad()\n        loss = self")
    made = rewritten(tmp_path, trial(change))
    assert "zero_grad" not in made
    assert "automatic_optimization" not in made


@pytest.mark.parametrize(
    ("base", "step", "is_automatic"),
    [
        ("torch.optim.SGD", "(self, closure=None):\n        return super().step(closure)", True),
        ("torch.optim.SGD", "(self):\n        return super().step()", True),
        ("Mixed", "(self, closure=None):\n        [o.step() for o in self.all]", False),
        (
            "Mixed",
            "(self, closure):\n        for o in self.all:\n            o.step(closure)",
            False,
        ),
        ("Mixed", "(self, closure):\n        closure()\n        closure()", False),
        ("Schedule", "(self, epoch):\n        pass", True),
    ],
)
def test_lightning_steps_no_optimizer_that_does_not_call_its_closure(
    tmp_path, base, step, is_automatic
):
    change = ("class Trial(", f"class Own({base}):\n    def step{step}\n\n\nclass Trial(")
    made = rewritten(tmp_path, trial(change, ("torch.optim.SGD(self", "Own(self")))
    assert ("automatic_optimization = False" not in made) == is_automatic


def test_a_variable_of_another_method_is_another_one(tmp_path):
    own = """\
    def evaluate_batch(self, batch):
        loss = self.model
        return {"error": loss(batch).sum()}
"""
    source = trial(("self.model(batch).sum()\n", 'self.model.to("cpu")(batch).sum()\n'))
    made = rewritten(tmp_path, source[: source.index("    def evaluate_batch")] + own)
    assert "automatic_optimization" not in made


@pytest.mark.parametrize(
    ("result", "is_automatic"),
    [
        pytest.param("loss, loss.detach()", True, id="numbers"),
        pytest.param("loss, self.model", False, id="the model"),
        pytest.param("loss, self.parts()", False, id="what another method returns of it"),
    ],
)
def test_what_a_method_has_returned_may_come_after_a_step(tmp_path, result, is_automatic):
    step = f"""\
    def parts(self):
        return [*self.model.parameters()]

    def step(self, batch):
        loss = self.model(batch).sum()
        return {result}

    def evaluate_batch"""
    changes = (
        ("loss = self.model(batch).sum()", "loss, other = self.step(batch)"),
        (RETURN, '        return {"loss": loss, "other": other}'),
        ("    def evaluate_batch", step),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert ("automatic_optimization" not in made) is is_automatic


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("loss = loss.item()", id="the loss is a number"),
        pytest.param("loss *= 2", id="another loss"),
        pytest.param("for loss in range(3): pass", id="a loop over losses"),
        pytest.param("batch[batch > 1] = 0", id="a batch that the backward pass needs"),
        pytest.param("seen = batch.detach(); seen[0] = 1", id="a view of it"),
        pytest.param("seen = batch; seen += 1", id="another name of it"),
        pytest.param("batch.clamp_(0, 1)", id="a method in place"),
        pytest.param("torch.relu(batch, inplace=True)", id="a function in place"),
        pytest.param("rounded(batch)", id="a function of the file"),
        pytest.param("print(time.time())", id="the time that a step has taken"),
    ],
)
def test_what_the_backward_pass_needs_is_not_changed_before_it(tmp_path, after):
    own = "def rounded(x):\n    x[x < 0.5] = 0\n\n\nclass Trial("
    changes = (("class Trial(", own), (RETURN, f"        {after}\n{RETURN}"))
    step = method(rewritten(tmp_path, trial(*changes)), "training_step")
    assert step.index("self.manual_backward(loss)") < step.index(after.partition(";")[0])


@pytest.mark.parametrize(
    ("init", "after"),
    [
        pytest.param("self.seen = {}", "self.seen[batch_idx] = loss.item()", id="a dict"),
        pytest.param("", "right = (batch > 0).sum(); right += 1", id="a sum of its own"),
        pytest.param("", "sums = [0, 0]; sums[0] += 1", id="a list"),
        pytest.param("", "out = {}; out['a'] = loss.item()", id="a text"),
        pytest.param("out = context", "out = {}; out[batch_idx] = 1", id="another method's name"),
    ],
)
def test_what_the_backward_pass_does_not_need_may_change(tmp_path, init, after):
    changes = ((INIT, f"{INIT}        {init}\n"), (RETURN, f"        {after}\n{RETURN}"))
    assert "manual_backward" not in rewritten(tmp_path, trial(*changes))


@pytest.mark.parametrize(
    ("lines", "loss"),
    [
        pytest.param("out = {'loss': loss}", "loss", id="the variable"),
        pytest.param("out = {'loss': loss * 2}", "out['loss']", id="another value"),
        pytest.param("out = {'loss': loss}; out['loss'] = loss * 2", "out['loss']", id="changed"),
        pytest.param("out = {'loss': loss}; loss = loss * 2", "out['loss']", id="set anew"),
    ],
)
def test_a_loss_that_is_looked_up_in_what_the_step_returns(tmp_path, lines, loss):
    changes = (
        ("self.context.backward(loss)", f"{lines}\n        self.context.backward(out['loss'])"),
        (RETURN, "        return out"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert "automatic_optimization" not in made
    end = ["    self.log_dict(out)", f"    return {loss}"]
    assert method(made, "training_step").splitlines()[-2:] == end


def test_a_loss_that_a_method_of_the_model_computes(tmp_path):
    change = (
        "self.model(batch).sum()\n        self.context",
        "self.model.loss(batch)\n        self.context",
    )
    assert "automatic_optimization" not in rewritten(tmp_path, trial(change))
    other = (RETURN, '        return {"loss": loss, "weights": weights.sum()}')
    weights = (
        "self.model(batch).sum()\n        self.context",
        "self.model.loss(batch)\n        weights = self.model.own(loss)\n        self.context",
    )
    assert "self.automatic_optimization = False" in rewritten(tmp_path, trial(weights, other))


def test_a_static_method_depends_on_what_it_is_given(tmp_path):
    own = (
        "    @staticmethod\n    def rounded(x):\n        return x.round()\n\n    def evaluate_batch"
    )
    for given, is_automatic in (("loss.item()", True), ("self.model.weight", False)):
        more = (
            f'        x = loss.item()\n        return {{"loss": x, "more": self.rounded({given})}}'
        )
        made = rewritten(tmp_path, trial(("    def evaluate_batch", own), (RETURN, more)))
        assert ("automatic_optimization" not in made) == is_automatic


def test_a_batch_that_ends_early_is_not_clipped(tmp_path):
    early = '        if batch_idx % 3 == 1:\n            return {"loss": batch.mean()}\n'
    clips = (
        "step_optimizer(self.opt)",
        "step_optimizer(self.opt, torch.nn.utils.clip_grad_value_)",
    )
    change = ("        self.context.backward", early + "        self.context.backward")
    assert "manual_backward" in rewritten(tmp_path, trial(clips, change))


CLIP = "torch.nn.utils.clip_grad_norm_(self.model.parameters(), {})"
STEP = "        self.context.step_optimizer(self.opt)\n"


@pytest.mark.parametrize(
    ("lines", "is_automatic"),
    [
        ([CLIP.format("1.0")], True),
        (["most = self.most", CLIP.format("most")], True),
        (["if self.most:", f"    {CLIP.format('self.most')}"], True),
        # Nothing else comes between, and nothing that only the method knows is needed.
        ([CLIP.format("loss.item()")], False),
        (["print(self.model.weight.grad)"], False),
        (["most = self.most"], False),
        (["self.most = 2.0", CLIP.format("self.most")], False),
        ([f"norm = {CLIP.format('1.0')}", "self.norms.append(norm)"], False),
    ],
)
def test_gradients_that_are_clipped_by_hand(tmp_path, lines, is_automatic):
    text = "".join(f"        {line}\n" for line in lines)
    made = rewritten(tmp_path, trial((STEP, f"{text}{STEP}")))
    assert ("automatic_optimization" not in made) is is_automatic
    if is_automatic:
        hook = method(made, "configure_gradient_clipping")
        assert hook.endswith("\n".join(f"    {line}" for line in lines))
        assert "clip_grad" not in method(made, "training_step")


def test_a_batch_that_ends_early_is_not_clipped_by_hand(tmp_path):
    early = "        if batch is None:\n            return {}\n        loss = self"
    clipped = (STEP, f"        {CLIP.format('1.0')}\n{STEP}")
    made = rewritten(tmp_path, trial(clipped, ("        loss = self", early)))
    assert "automatic_optimization = False" in made


SET = "self.most = 5.0"


@pytest.mark.parametrize(
    ("clip", "lines"),
    [
        ("", [CLIP.format("self.most")]),
        ("", ["self.clip(self.model.parameters())"]),
        (", lambda params: torch.nn.utils.clip_grad_norm_(params, self.most)", []),
        (", self.clip", []),
    ],
)
@pytest.mark.parametrize("after", [SET, "self.change()", "self.n = 1"])
def test_what_clips_is_not_changed_before_it_does(tmp_path, clip, lines, after):
    """Lightning clips after ``training_step`` has returned."""
    text = "".join(f"        {line}\n" for line in lines)
    helpers = (
        "    def clip(self, params):\n        torch.nn.utils.clip_grad_norm_(params, self.most)\n\n"
        f"    def change(self):\n        {SET}\n\n    def evaluate_batch"
    )
    source = trial(
        (STEP, f"{text}{STEP.replace('self.opt)', f'self.opt{clip})')}"),
        (RETURN, f"        {after}\n{RETURN}"),
        ("    def evaluate_batch", helpers),
        (INIT, f"{INIT}        self.most = 1.0\n"),
    )
    is_safe = after == "self.n = 1" and (bool(clip) or "clip_grad" in text)
    made = rewritten(tmp_path, source)
    assert ("self.automatic_optimization = False" not in made) is is_safe


@pytest.mark.parametrize(
    ("init", "clip", "after", "is_safe"),
    [
        ("", "self.clip", "self.norm", False),
        ("", "lambda params: self.clip(params)", "self.told()", False),
        (
            "self.norms = []",
            "lambda p: self.norms.append(clip_grad_norm_(p, 1))",
            "self.norms",
            False,
        ),
        ("self.clipper = Clipper()", "self.clipper", "self.clipper.norm", False),
        ("self.clipper = Clipper()", "lambda p: self.clipper.clip(p)", "self.clipper.norm", False),
        ("self.most = 1.0", "lambda p: clip_grad_norm_(p, self.most)", "self.most", True),
        ("self.h = context.get_hparams()", "lambda p: clip(p, self.h.get('c', 1))", "self.h", True),
        ("", "self.clip", "batch_idx", True),
    ],
)
def test_what_clipping_has_changed_is_not_seen_before_it(tmp_path, init, clip, after, is_safe):
    """A norm that is kept where gradients are clipped is there behind the step alone."""
    helpers = (
        "    def clip(self, params):\n"
        "        self.norm = torch.nn.utils.clip_grad_norm_(params, 1.0)\n\n"
        "    def told(self):\n        return self.norm\n\n    def evaluate_batch"
    )
    source = trial(
        (STEP, STEP.replace("self.opt)", f"self.opt, clip_grads={clip})")),
        (RETURN, RETURN.replace("}", f', "more": {after}}}')),
        ("    def evaluate_batch", helpers),
        (INIT, f"{INIT}        {init}\n"),
    )
    assert ("self.automatic_optimization = False" not in rewritten(tmp_path, source)) is is_safe


HELPER = """def measure(model, batch):
    {}


class Trial"""


@pytest.mark.parametrize(
    ("body", "is_automatic"),
    [
        ("found = model(batch)\n    return found.sum(), {'mean': found.mean()}", True),
        ("device = model.device\n    return model(batch).sum(), {'n': len(batch)}", True),
        ("return model(batch).sum(), {'mean': model.weight.mean()}", False),
        ("return model(batch).sum(), {'scale': model.scale}", False),
        ("found = {}\n    found.update(a=model)\n    return model(batch).sum(), found", False),
        ("return model(batch).sum(), [p for p in model.parameters()]", False),
    ],
)
def test_what_a_function_computes_of_a_model_no_step_changes(tmp_path, body, is_automatic):
    step = "        loss, found = measure(self.model, batch)\n"
    source = trial(
        ("        loss = self.model(batch).sum()\n", step),
        (RETURN, '        return {"loss": loss, **found}'),
        ("class Trial", HELPER.format(body)),
    )
    assert ("automatic_optimization" not in rewritten(tmp_path, source)) is is_automatic


HEIR = """

class Heir(Trial):
    def __init__(self, context):
        super().__init__(context)
        {0}

    def scores(self, out):
        {1}
"""


@pytest.mark.parametrize(
    ("init", "scores", "is_automatic"),
    [
        pytest.param("self.more = 1", "return out.abs()", True, id="a metric of its own"),
        pytest.param("self.more = 1", "return self.opt", False, id="the optimizer"),
        pytest.param("self.more = 1", "self.context.backward(out)", False, id="a backward pass"),
        pytest.param(
            "self.two = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=1))",
            "return 1",
            False,
            id="an optimizer of its own",
        ),
    ],
)
def test_a_base_is_automatic_if_no_heir_optimizes(init, scores, is_automatic, tmp_path):
    made = rewritten(tmp_path, trial() + HEIR.format(init, scores))
    assert ("self.automatic_optimization = False" not in made) is is_automatic
    assert method(made, "training_step").endswith("return loss") is is_automatic


@pytest.mark.parametrize(
    ("after", "is_automatic"),
    [
        ("self.n += 1", True),
        # An heir defines the one, and sets the other: who knows what they have of the model.
        ("self.scores(batch)", False),
        ("print(self.more)", False),
    ],
)
def test_what_an_heir_has_may_be_changed_by_a_step(after, is_automatic, tmp_path):
    own = "    @staticmethod\n    def scores(out):\n        return out\n\n    def evaluate_batch"
    changes = (
        (INIT, f"{INIT}        self.n = self.more = 0\n"),
        (RETURN, f"        {after}\n{RETURN}"),
        ("    def evaluate_batch", own),
    )
    heir = HEIR.format("self.more = self.model", "return self.model(out)")
    made = rewritten(tmp_path, trial(*changes) + heir)
    assert ("self.automatic_optimization = False" not in made) is is_automatic


def test_an_heir_of_two_trials_is_stepped_by_itself(tmp_path):
    other = "\n\nclass Other(PyTorchTrial):\n    pass\n\n\nclass Both(Trial, Other):\n    pass\n"
    assert "self.automatic_optimization = False" in rewritten(tmp_path, trial() + other)


def test_what_a_function_in_train_batch_returns_ends_no_batch(tmp_path):
    """One that ends early is clipped too late by Lightning, and a function of its own ends none."""
    inner = "        def told(x):\n            return x * 2\n\n"
    clipped = (STEP, STEP.replace("self.opt)", "self.opt, torch.nn.utils.clip_grad_value_)"))
    source = trial(clipped, ("        loss = self", f"{inner}        loss = self"))
    assert "automatic_optimization" not in rewritten(tmp_path, source)


@pytest.mark.parametrize(
    ("body", "is_automatic"),
    [
        pytest.param("if self.verbose:\n            print(text)", True, id="what it has itself"),
        pytest.param("self.said(text)", True, id="another method"),
        pytest.param("print(self.context.distributed.get_rank())", True, id="the rank"),
        pytest.param("print(self.model.weight)", False, id="the model"),
        pytest.param("self.seen(text)", False, id="a method that sees the model"),
        pytest.param("print(self)", False, id="the trial"),
        pytest.param("text.add_(1)", False, id="what the backward pass may need"),
        pytest.param("print(time.time())", False, id="the time of a step"),
    ],
)
def test_a_method_that_sees_nothing_of_a_step_may_come_after_it(tmp_path, body, is_automatic):
    methods = f"""\
    def tell(self, text):
        {body}

    def said(self, text):
        print(self.verbose, text)

    def seen(self, text):
        print(self.opt, text)

    def evaluate_batch"""
    changes = (
        (INIT, f"{INIT}        self.verbose = True\n"),
        (RETURN, f"        self.tell(batch_idx)\n{RETURN}"),
        ("    def evaluate_batch", methods),
    )
    # What no batch calls keeps no optimizer to itself.
    if not body.startswith("self.seen"):
        changes = (*changes, ("print(self.opt, text)", "pass"))
    made = rewritten(tmp_path, trial(*changes))
    assert ("automatic_optimization" not in made) == is_automatic


@pytest.mark.parametrize(
    ("init", "asked", "is_automatic"),
    [
        ("self.tb = library.Balance()", "self.tb.data_losses(self.model, batch)", True),
        ("", "library.loss(self.model, batch)", True),
        # Nobody knows what these are.
        ("self.tb = library.Balance()", "self.tb.glossary(self.model, batch)", False),
        ("self.loss = library.Balance()", "self.loss(self.model, batch)", False),
        # This one is here to be read.
        ("self.tb = Balance()", "self.tb.own_loss(self.model, batch)", False),
    ],
)
def test_what_a_loss_of_a_library_returns_no_step_changes(init, asked, is_automatic, tmp_path):
    changes = (
        (INIT, f"{INIT}        {init or 'pass'}\n"),
        ("self.model(batch).sum()\n        self.context", f"{asked}\n        self.context"),
        ("loss = ", "loss, more = "),
        (RETURN, '        return {"loss": loss, "more": more["a"].mean()}'),
    )
    here = "\n\nclass Balance:\n    def own_loss(self, model, x):\n        return x, model.weight\n"
    made = rewritten(tmp_path, trial(*changes) + here)
    assert ("self.automatic_optimization = False" not in made) is is_automatic


SHARED = """\
STATE = {}


def size():
    return STATE["model"].weight.sum()


def size_of(model):
    return model.weight.sum()


def again():
    return size()


def count():
    return 1


class Trial"""


@pytest.mark.parametrize(
    ("before", "after", "is_automatic"),
    [
        ("def ask():\n            return self.model.weight.sum()", "ask()", False),
        ("def twice(x):\n            return 2 * x", "twice(batch_idx)", True),
        ("ask = lambda: size_of(self.model)", "ask()", False),
        ("every = (size_of(each) for each in [self.model])", "next(every)", False),
        ("for p in self.model.parameters():\n            pass", "p", False),
        ("w: torch.Tensor = self.model.weight", "w", False),
        ("(w := self.model.weight)", "w", False),
        ("with there(self.model) as w:\n            pass", "w", False),
        ("n: int = 1", "n", True),
        # What is calculated is new, but lists are put together and repeated by the same signs.
        ("scaled = 1.0 + 0.5 * self.model.weight", "scaled", True),
        ("far = self.model.weight - batch_idx", "far", True),
        ("back = -self.model.weight", "back", True),
        ("pair = [self.model] + [batch]", "pair", False),
        ("twice = 2 * [self.model.weight]", "twice", False),
        # A variable of the file has the model, too.
        ("STATE['model'] = self.model", "size()", False),
        ("STATE['model'] = self.model", "again()", False),
        ("STATE['model'] = self.model", "STATE", False),
        ("STATE['model'] = self.model", "count()", True),
        ("STATE['batch'] = batch", "again()", True),
    ],
)
def test_what_has_been_taken_before_a_step_is_changed_by_it(before, after, is_automatic, tmp_path):
    source = trial(
        ("        loss =", f"        {before}\n        loss ="),
        (RETURN, f"        print({after})\n{RETURN}"),
        ("class Trial", SHARED),
    )
    assert ("automatic_optimization" not in rewritten(tmp_path, source)) is is_automatic

from __future__ import annotations

from tests.migrate.rewriting import rewritten, trial


def test_attributes_and_methods_are_renamed(tmp_path):
    change = (
        "self.context = context",
        "self.context = context\n        self.logger = make_logger()",
    )
    made = rewritten(tmp_path, trial(change, ("self.model(batch).sum()}", "self.logger.last}")))
    assert "self.trial_logger = make_logger()" in made
    assert "self.trial_logger.last" in made


def test_a_method_with_a_new_name_is_known_by_it_where_it_is_looked_for(tmp_path):
    mixin = "class Lines:\n    def log(self, text):\n        self.lines = [text]\n\n\n"
    source = trial(
        ("class Trial(", f"{mixin}class Trial(Lines, "),
        ('return {"loss": loss}', 'self.log("x")\n        return {"loss": loss}'),
        ('{"error"', '{"n": len(self.lines), "error"'),
    )
    made = rewritten(tmp_path, source)
    assert "    def trial_log(self, text):" in made and 'self.trial_log("x")' in made


def test_what_a_class_has_is_renamed_wherever_it_is_used(tmp_path):
    mixin = """\
class Shared:
    training = "none"

    @classmethod
    def note(cls):
        cls.training += "x"

    def on_train_epoch_end(self):
        self.note()


"""
    first = """\
    logger = make_logger()
    fabric: str = logger.name
    trainer: object

    @property
    def current_epoch(self):
        return type(self).training + Trial.fabric

    @current_epoch.setter
    def current_epoch(self, value):
        self._device = setattr(self, "global_step", value)

    def __init__("""
    used = 'self.on_train_epoch_end()\n        return {"loss": loss * size_of(self)}'
    size = (
        'def size_of(trial):\n    return getattr(trial, "global_step") + trial.logger.level\n\n\n'
    )
    changes = (
        ("class Trial(", f"{size}{mixin}class Trial(Shared, "),
        ("    def __init__(", first),
        ('return {"loss": loss}', used),
    )
    made = rewritten(tmp_path, trial(*changes))
    for text in (
        'trial_training = "none"',
        'cls.trial_training += "x"',
        "def trial_on_train_epoch_end(self):",
        "self.trial_on_train_epoch_end()",
        "trial_logger = make_logger()",
        "trial_fabric: str = trial_logger.name",
        "trainer: object",
        "@trial_current_epoch.setter",
        "return type(self).trial_training + Trial.trial_fabric",
        'self._trial_device = setattr(self, "trial_global_step", value)',
        'getattr(trial, "trial_global_step") + trial.trial_logger.level',
    ):
        assert text in made, (text, made)
    assert "MIGRATE" not in made

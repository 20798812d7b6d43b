from __future__ import annotations

from tests.migrate.rewriting import method, rewritten, trial

SCHEDULE = """\
lr=0.1))
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1), {0}
        )
"""


def scheduled(folder, mode: str) -> str:
    return rewritten(folder, trial(("lr=0.1))\n", SCHEDULE.format(mode))))


def test_a_step_mode_that_is_looked_up_at_run_time(tmp_path):
    made = scheduled(tmp_path, 'LRScheduler.StepMode[context.get_hparam("mode")]')
    assert "self.schedule_step_mode = mode\n" in made
    assert method(made, "on_train_batch_end") == (
        "def on_train_batch_end(self, outputs, batch, batch_idx):\n"
        '    if self.schedule_step_mode in ("STEP_EVERY_BATCH", "STEP_EVERY_OPTIMIZER_STEP"):\n'
        "        self.schedule.step()"
    )
    assert method(made, "on_train_epoch_end") == (
        "def on_train_epoch_end(self):\n"
        '    if self.schedule_step_mode == "STEP_EVERY_EPOCH":\n'
        "        self.schedule.step()"
    )
    assert "MIGRATE" not in made


def test_schedulers_of_two_modes_under_one_name(tmp_path):
    either = """\
lr=0.1))
        if context.get_hparam("warm"):
            self.schedule = context.wrap_lr_scheduler(
                torch.optim.lr_scheduler.StepLR(self.opt, 1),
                LRScheduler.StepMode.STEP_EVERY_BATCH,
            )
        else:
            self.schedule = context.wrap_lr_scheduler(
                torch.optim.lr_scheduler.StepLR(self.opt, 2),
                LRScheduler.StepMode.STEP_EVERY_EPOCH,
            )
"""
    made = rewritten(tmp_path, trial(("lr=0.1))\n", either)))
    assert '            self.schedule_step_mode = "STEP_EVERY_BATCH"\n' in made
    assert '            self.schedule_step_mode = "STEP_EVERY_EPOCH"\n' in made
    assert "return [self.opt], [self.schedule]\n" in made
    assert 'if self.schedule_step_mode == "STEP_EVERY_EPOCH":' in method(made, "on_train_epoch_end")


def test_a_scheduler_that_is_only_made_at_times(tmp_path):
    maybe = """\
lr=0.1))
        self.schedule = None
        if context.get_hparam("warm"):
            self.schedule = context.wrap_lr_scheduler(
                torch.optim.lr_scheduler.StepLR(self.opt, 1),
                LRScheduler.StepMode.STEP_EVERY_BATCH,
            )
"""
    made = rewritten(tmp_path, trial(("lr=0.1))\n", maybe)))
    there = 'getattr(self, "schedule", None) is not None'
    assert f"return [self.opt], [self.schedule] if {there} else []\n" in made
    assert f"    if {there}:\n        self.schedule.step()" in method(made, "on_train_batch_end")

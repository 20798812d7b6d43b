from __future__ import annotations

from tests.migrate.rewriting import rewritten, trial


def test_the_logger_writes(tmp_path):
    source = "from determined.tensorboard.metric_writers.pytorch import TorchWriter\n" + trial(
        ("lr=0.1))\n", "lr=0.1))\n        self.logger = TorchWriter()\n"),
        (
            '        return {"error"',
            "        self.logger.writer.add_scalar('x', 1, 2)\n        return {\"error\"",
        ),
    )
    made = rewritten(tmp_path, source)
    assert "TorchWriter" not in made
    assert "self.logger.experiment.add_scalar('x', 1, 2)" in made

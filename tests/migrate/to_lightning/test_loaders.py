from __future__ import annotations

from tests.migrate.rewriting import method, rewritten, trial


def test_names_and_types(tmp_path):
    made = rewritten(tmp_path, trial())
    assert method(made, "train_dataloader") == (
        "def train_dataloader(self):\n"
        "    return DataLoader([], batch_size=self.hparams.global_batch_size // "
        "self.trainer.world_size)"
    )
    assert "from torch.utils.data import DataLoader\n" in made


def test_calls_follow(tmp_path):
    change = (
        'return {"error"',
        'n = len(self.build_training_data_loader())\n        return {"error"',
    )
    assert "len(self.train_dataloader())" in rewritten(tmp_path, trial(change))


def test_what_lightning_does_by_itself(tmp_path):
    source = """\
    from determined.pytorch import samplers

    def sampler(base, context):
        base = samplers.RepeatBatchSampler(base)
        base = samplers.DistributedBatchSampler(base, 2, 1)
        return samplers.SkipBatchSampler(base, 3)
    """
    made = rewritten(tmp_path, source)
    assert "base = base\n" not in made
    assert "return base" in made
    assert "determined" not in made


def test_samplers_that_lightning_does_not_have(tmp_path):
    source = """\
    from determined.pytorch import samplers

    def sampler(base):
        return samplers.ReproducibleShuffleSampler(base, 3)
    """
    made = rewritten(tmp_path, source)
    assert "# MIGRATE: pytorch.samplers.ReproducibleShuffleSampler has no counterpart" in made


def test_methods_of_the_class_body(tmp_path):
    change = (
        "    def build_validation_data_loader(self):\n        return DataLoader([], batch_size=4)",
        "    build_validation_data_loader = build_training_data_loader",
    )
    made = rewritten(tmp_path, trial(change))
    assert "    val_dataloader = train_dataloader\n" in made

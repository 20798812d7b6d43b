"""What a LightningModule has for each member of a context, as text with the module for ``{0}``."""

from det_compat.migrate.configs import BATCHES
from det_compat.migrate.to_lightning.optimization.accumulation import IS_DUE
from det_compat.migrate.to_lightning.plan import TOTAL_BATCH
from det_compat.migrate.to_lightning.written_out.early_device import OF_PROCESS
from det_compat.migrate.to_lightning.written_out.gathering import GATHERING

CALLED = {
    "distributed.get_num_agents": "{0}.trainer.num_nodes",
    "distributed.get_rank": "{0}.global_rank",
    "distributed.get_local_rank": "{0}.local_rank",
    "distributed.get_size": "{0}.trainer.world_size",
    "current_train_batch": TOTAL_BATCH,
    "current_train_epoch": "{0}.current_epoch",
    "is_epoch_start": "({0}.trainer.fit_loop.batch_idx == 0)",
    "is_epoch_end": "{0}.trainer.is_last_batch",
    "get_per_slot_batch_size": "({0}.hparams.global_batch_size // {0}.trainer.world_size)",
    "get_global_batch_size": "{0}.hparams.global_batch_size",
    "get_hparams": "{0}.hparams",
    "get_data_config": "{0}.hparams.data_config",
    "get_experiment_config": "{0}.hparams.experiment_config",
    # A config need not have one: a cluster drew it then.
    "get_trial_seed": (
        '{0}.hparams.experiment_config.get("reproducibility", {{}}).get("experiment_seed", 0)'
    ),
    "get_stop_requested": "{0}.trainer.should_stop",
    "_should_communicate_and_update": (
        f"(({TOTAL_BATCH} + 1) % {{0}}.trainer.accumulate_grad_batches == 0)"
    ),
    "get_tensorboard_writer": "{0}.logger.experiment",
}
READ = {
    "device": "{0}.device",
    "backward": "{0}.manual_backward",
    "distributed.rank": "{0}.global_rank",
    "distributed.local_rank": "{0}.local_rank",
    "distributed.size": "{0}.trainer.world_size",
    "distributed._hvd_config.use": "({0}.trainer.world_size > 1)",
    "_aggregation_frequency": "{0}.trainer.accumulate_grad_batches",
    "_current_batch_idx": TOTAL_BATCH,
    "_epoch_len": "{0}.trainer.num_training_batches",
}
# A trial asks these in __init__, where there is no Trainer yet.
EARLY = {
    "device": OF_PROCESS,
    "distributed.get_rank": "rank_zero_only.rank",
    "distributed.rank": "rank_zero_only.rank",
    "distributed.get_local_rank": 'int(os.environ.get("LOCAL_RANK", "0"))',
    "distributed.local_rank": 'int(os.environ.get("LOCAL_RANK", "0"))',
    "get_per_slot_batch_size": "({0}.hparams.global_batch_size // {0}.hparams.world_size)",
    "distributed.get_size": "{0}.hparams.world_size",
    "distributed.size": "{0}.hparams.world_size",
    "distributed._hvd_config.use": "({0}.hparams.world_size > 1)",
    "distributed.get_num_agents": "1",
    "get_stop_requested": "False",
    "_current_batch_idx": "None",
    "_epoch_len": "None",
    "_aggregation_frequency": "1",
    "get_tensorboard_writer": "SummaryWriter()",
}
#: Where a run begins: as loaders are told, given the batches of a step, and that of a new run.
BEGINNING = {
    "get_initial_batch": (f"({TOTAL_BATCH} + 1)", "0"),
    "env.first_step": (f"(({TOTAL_BATCH} + 1) // {{1}} + 1)", "1"),
}
BEGINS_ELSEWHERE = (
    "{0} is that of a new run here: one that goes on from a checkpoint begins elsewhere, which is "
    "known from train_dataloader on"
)
#: What a module knows that counts its batches itself.
COUNTING = {
    "_should_communicate_and_update": f"{{0}}.{IS_DUE}()",
    "_aggregation_frequency": f"{{0}}.hparams.{BATCHES}",
}
#: How a module whose parameters are not named asks for the number of processes.
WORLD_SIZE = "{0}.hparams.world_size", '{0}.hparams.get("world_size", 1)'
IMPORTS = {
    "rank_zero_only": "from pytorch_lightning.utilities import rank_zero_only",
    "os.": "import os",
    "SummaryWriter": "from torch.utils.tensorboard import SummaryWriter",
}
EARLY_IS_DIFFERENT = {*GATHERING, "distributed.get_num_agents", "_aggregation_frequency"}

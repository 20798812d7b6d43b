"""What functions and methods take, and which methods only a context has."""

from __future__ import annotations

#: The keyword arguments that are taken; others raise a TypeError, as in Determined 0.38.1.
ARGUMENTS: dict[str, str] = {
    "det_compat.pytorch.Trainer.fit": "checkpoint_period validation_period max_length "
    "reporting_period checkpoint_policy latest_checkpoint step_zero_validation test_mode "
    "profiling_enabled",
    "det_compat.pytorch.PyTorchTrialContext.backward": "loss gradient retain_graph create_graph",
    "det_compat.pytorch.PyTorchTrialContext.step_optimizer": "optimizer clip_grads "
    "auto_zero_grads scaler",
    "det_compat.pytorch.PyTorchTrialContext.wrap_model": "model",
    "det_compat.pytorch.PyTorchTrialContext.wrap_optimizer": "optimizer backward_passes_per_step "
    "fp16_compression average_aggregated_gradients",
    "det_compat.pytorch.PyTorchTrialContext.wrap_lr_scheduler": "lr_scheduler step_mode frequency",
    "det_compat.pytorch.PyTorchTrialContext.wrap_reducer": "reducer name for_training "
    "for_validation",
    "det_compat.pytorch.init": "hparams exp_conf distributed aggregation_frequency "
    "enable_tensorboard_logging",
}

#: Methods that only a context has: what has one of them called on it is one.
TELLTALE = frozenset(
    {
        "autocast_forward_pass",
        "configure_apex_amp",
        "current_train_batch",
        "current_train_epoch",
        "get_data_config",
        "get_experiment_config",
        "get_global_batch_size",
        "get_hparam",
        "get_hparams",
        "get_per_slot_batch_size",
        "get_trial_seed",
        "set_stop_requested",
        "step_optimizer",
        "wrap_lr_scheduler",
        "wrap_model",
        "wrap_optimizer",
        "wrap_reducer",
        "wrap_scaler",
    }
)

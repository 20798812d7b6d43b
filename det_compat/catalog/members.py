"""What becomes of the attributes, arguments and results of Determined's classes.

The tables hold the names of every release of Determined that was read, 0.12.3 to 0.38.1, and those
that det_compat adds; their keys are names in det_compat. Tests hold them against its classes.
"""

from det_compat.catalog.status import Support, each, refused, verdicts

_CONTEXT = "det_compat.pytorch.PyTorchTrialContext"
_DISTRIBUTED = "det_compat.core.DistributedContext"
_EXPERIMENTAL = "det_compat.pytorch.PyTorchExperimentalContext"
_ENV = "det_compat.pytorch.context.transitional.TrialEnv"
_TRIAL = "det_compat.pytorch.PyTorchTrial"
_CORE = "det_compat.core.Context"
_TRAIN = "det_compat.core.TrainContext"
_CLUSTER_INFO = "det_compat.info.ClusterInfo"
_TRIAL_INFO = "det_compat.info.TrialInfo"
_CHECKPOINT = "det_compat.core.CheckpointContext"
_PREEMPT = "det_compat.core.PreemptContext"

# Several classes share these notes.
_OLD = "of Determined 0.12, and there #determined-012"
_OLD_ONLY = "there for trials of Determined 0.12 only #determined-012"
_IDS = "is 0: only a cluster numbers experiments and trials #identifiers-and-seeds"
_NO_CORE = "it needs a Determined cluster, and there is none #determinedcore"

MEMBERS: dict[str, dict[str, Support]] = {
    _CONTEXT: verdicts(
        same="autocast_forward_pass backward current_train_batch current_train_epoch device "
        "distributed experimental get_data_config get_enable_tensorboard_logging "
        "get_experiment_config get_hparam get_hparams get_initial_batch get_stop_requested "
        "is_epoch_end is_epoch_start lr_schedulers models optimizers profiler reduce_metrics "
        "reset_reducers set_enable_tensorboard_logging set_profiler set_stop_requested "
        "to_device wrap_optimizer wrap_scaler _current_batch_idx _epoch_len "
        "_aggregation_frequency average_aggregated_gradients ddp_kwargs "
        "sync_when_accumulating",
        different={
            (
                "_should_communicate_and_update _hparams _exp_conf _scaler _stop_requested "
                "_managed_training _core"
            ): "private; there, but it may go #private-names",
            "configure_apex_amp": "trains with torch's own mixed precision #nvidia-apex",
            "get_experiment_id get_trial_id": _IDS,
            "get_trial_seed": "is reproducibility.experiment_seed of exp_conf, and an error "
            "without it #identifiers-and-seeds",
            "get_global_batch_size get_per_slot_batch_size": "a global_batch_size that does not "
            "divide by the number of ranks is an error #a-batch-size-that-does-not-divide",
            "get_tensorboard_path get_tensorboard_writer": "is a directory of this run, below "
            "runs/ #tensorboard-files",
            "step_optimizer": "communication on batches that accumulate can be deferred "
            "#gradients-on-batches-that-accumulate",
            "wrap_lr_scheduler": "step modes under gradient aggregation are those of Determined's "
            "code, not of its documents; a frequency of 0 is an error "
            "#step-modes-and-gradient-aggregation",
            "wrap_model": "a model without anything to train is not wrapped on several ranks "
            "#models-without-anything-to-train-on-several-ranks",
            "wrap_reducer": "takes every object with a reducer's methods #which-reducers-are-taken",
            (
                "Model Optimizer LRScheduler _Model _Optimizer _LRScheduler _backward "
                "_step_optimizer _configure_apex_amp _to_device get_model get_optimizer "
                "get_lr_scheduler n_gpus env"
            ): _OLD,
            "model optimizer lr_scheduler": _OLD_ONLY,
        },
        refused={
            "run_cross_slot_reduction": "its arguments are private: reduce_metrics(for_training) "
            "does both steps #private-names",
            "from_config": "write pytorch.init(hparams=..., exp_conf=...) "
            "#names-that-are-not-there",
            "warning_logged": "it was Determined's own #names-that-are-not-there",
            "hvd_config rendezvous_info": "ranks are torch's: ask context.distributed "
            "#determinedhorovod",
            "train_context": "the context itself has what it had #names-that-are-not-there",
        },
    ),
    _DISTRIBUTED: verdicts(
        same="allgather allgather_local broadcast broadcast_local close cross_rank cross_size "
        "from_torch_distributed gather gather_local get_local_rank get_num_agents get_rank "
        "get_size local_rank local_size rank size",
        refused={
            "from_horovod": "ranks are torch's: start with torchrun #determinedhorovod",
            "from_deepspeed": "ranks are torch's: start with torchrun #determinedpytorchdeepspeed",
            "from_tf_config": "ranks are torch's: start with torchrun #determinedkeras",
            "tempdir": "it held Determined's own sockets #names-that-are-not-there",
        },
    ),
    _CORE: verdicts(
        same="checkpoint distributed preempt train",
        refused={"alert close experimental info profiler searcher start": _NO_CORE},
    ),
    _TRAIN: verdicts(
        same="get_experiment_best_validation get_tensorboard_path report_early_exit report_metrics "
        "report_progress report_training_metrics report_validation_metrics set_status "
        "upload_tensorboard_files",
        refused={"get_metadata set_metadata": _NO_CORE},
    ),
    _EXPERIMENTAL: verdicts(
        same="disable_auto_to_device disable_dataset_reproducibility_checks use_amp",
        different={
            "wrap_reducer": "of Determined 0.13 to 0.17, and there: context.wrap_reducer(...) "
            "#older-generations",
        },
        refused={
            "reset_reducers reduce_metrics": "since Determined 0.18 reducers are the context's "
            "own: context.wrap_reducer(...) #names-that-are-not-there",
            "cache_train_dataset cache_validation_dataset": "Keras and TensorFlow are not "
            "supported #determinedkeras",
        },
    ),
    _ENV: verdicts(different={"first_step": _OLD}),
    _TRIAL: verdicts(
        same="build_callbacks evaluate_full_dataset evaluation_reducer trial_context_class",
        different={
            "build_training_data_loader build_validation_data_loader": "a plain torch loader that "
            "ends is started again, where Determined hangs #plain-torch-loaders-that-end",
            "evaluate_batch train_batch": "metrics that are strings, and none at all, work on "
            "several ranks too #metrics-of-any-kind-on-several-ranks",
            "get_batch_length": "is called only where the trial defines it "
            "#batches-without-a-length",
            "build_model optimizer create_lr_scheduler": _OLD_ONLY,
        },
        refused={
            "trial_controller_class": "the controller is private to Determined: train with "
            "pytorch.Trainer #private-names",
        },
    ),
    "det_compat.pedl.frameworks.pytorch.PyTorchTrial": verdicts(
        same="build_callbacks build_model build_training_data_loader build_validation_data_loader "
        "create_lr_scheduler evaluate_batch evaluate_full_dataset evaluation_reducer losses "
        "optimizer train_batch training_metrics validation_metrics",
    ),
    "det_compat.pytorch.PyTorchCallback": verdicts(
        same="load_state_dict on_checkpoint_load_start on_checkpoint_save_start "
        "on_training_epoch_end on_training_epoch_start on_training_start "
        "on_training_workload_end on_trial_shutdown on_trial_startup on_validation_end "
        "on_validation_epoch_end on_validation_epoch_start on_validation_start state_dict",
        different={
            (
                "on_checkpoint_end on_checkpoint_upload_end on_checkpoint_write_end"
            ): "is called for checkpoints of pytorch.Trainer, not for Lightning's own "
            "#lightnings-checkpoints",
            (
                "on_before_optimizer_step on_train_step_end on_train_step_start "
                "on_validation_step_end on_validation_step_start"
            ): "called for trials of Determined 0.12; in the context API it never was "
            "#determined-012",
        },
    ),
    "det_compat.pytorch.Trainer": verdicts(
        same="configure_profiler",
        different={
            "fit": "empty loaders are errors before training; a resumed run skips what was "
            "trained #resuming",
            "fit(profiling_enabled)": "warns and has no effect #profiling",
            "fit(latest_checkpoint)": "resumes with torch 2.6 and later too #resuming",
        },
    ),
    "det_compat.pytorch.LRScheduler": verdicts(
        same="StepMode get_last_lr load_state_dict state_dict step StepMode.STEP_EVERY_EPOCH "
        "StepMode.MANUAL_STEP",
        different={
            "StepMode.STEP_EVERY_BATCH": "under gradient aggregation it steps in bursts, as "
            "Determined's code does #step-modes-and-gradient-aggregation",
            "StepMode.STEP_EVERY_OPTIMIZER_STEP": "its frequency counts batches, as in "
            "Determined's code #step-modes-and-gradient-aggregation",
        },
    ),
    "det_compat.pytorch.DataLoader": verdicts(
        same="batch_sampler batch_size collate_fn dataset drop_last generator get_data_loader "
        "multiprocessing_context num_workers persistent_workers pin_memory prefetch_factor "
        "sampler timeout worker_init_fn",
    ),
    "det_compat.pytorch.MetricReducer": verdicts(same="cross_slot_reduce per_slot_reduce reset"),
    "det_compat.pytorch.Reducer": verdicts(same="AVG MAX MIN SUM"),
    "det_compat.pytorch.TrainUnit": verdicts(same="should_stop value"),
    "det_compat.horovod.hvd": verdicts(
        same="rank size local_rank local_size allreduce Average Sum"
    ),
    _CLUSTER_INFO: verdicts(
        different={
            (
                "container_addrs container_rank container_slot_counts gpu_uuids latest_checkpoint "
                "rendezvous_info resources_info slot_ids task_type trial trial_info user_data"
            ): "there in a script that `det-compat fit CONFIG.yaml` runs; elsewhere "
            "get_cluster_info() is None, as it is off a cluster #determined",
            (
                "agent_id allocation_id cluster_id master_cert_file master_cert_name master_url "
                "session_token task_id"
            ): "empty: there is no master #determined",
        },
    ),
    _TRIAL_INFO: verdicts(
        same="hparams _config _steps_completed _debug",
        different={
            "experiment_id trial_id": _IDS,
            "trial_seed": "is reproducibility.experiment_seed of the config #identifiers-and-seeds",
        },
    ),
    _CHECKPOINT: verdicts(
        same="store_path delete base_path find latest list unfinished",
        refused={
            "download get_metadata restore_path upload": "a checkpoint is a directory of this "
            "machine: read the files in it #determinedcore",
        },
    ),
    _PREEMPT: verdicts(
        same="acknowledge_preemption_signal should_preempt",
        refused={
            "close start": "there is nothing to start or close #determinedcore",
        },
    ),
    "det_compat.core.EarlyExitReason": verdicts(same="INVALID_HP USER_REQUESTED_STOP"),
    "det_compat.tensorboard.metric_writers.pytorch.TorchWriter": verdicts(
        same="writer add_scalar reset"
    ),
}

#: Objects of which every other name is refused, whatever it is, for one reason.
OTHERS: dict[str, Support] = verdicts(
    refused={
        _ENV: "of context.env there is first_step(): use context.get_hparams(), "
        "get_experiment_config(), get_per_slot_batch_size(), device and distributed "
        "#determined-012",
        "det_compat.horovod.hvd": "of Horovod there are rank, size, local_rank, local_size and "
        "allreduce: use torch.distributed #determinedhorovod",
    }
)

#: The support of what only trials of Determined 0.12 have: a context of the context API does not
#: have it, and a trial of the context API may use the name for a method of its own.
OLD_ONLY = MEMBERS[_CONTEXT]["model"]

#: The support of an attribute that no release has, of what is certainly a context or the like.
NOWHERE = refused(
    "neither det_compat nor any release of Determined that was read has it, and this code does not "
    "set it",
    "names-that-are-not-there",
)

#: Classes that users derive from: an object of one may have any other attribute, too.
SUBCLASSED = frozenset(
    {
        "det_compat.pytorch.MetricReducer",
        "det_compat.pytorch.PyTorchCallback",
        _TRIAL,
        "det_compat.pedl.frameworks.pytorch.PyTorchTrial",
    }
)

#: Attributes that are objects with members of their own.
TYPES: dict[tuple[str, str], str] = {
    (_TRIAL, "context"): _CONTEXT,
    (_CONTEXT, "distributed"): _DISTRIBUTED,
    (_CONTEXT, "experimental"): _EXPERIMENTAL,
    (_CONTEXT, "env"): _ENV,
    (_CONTEXT, "_core"): _CORE,
    (_CORE, "checkpoint"): _CHECKPOINT,
    (_CORE, "distributed"): _DISTRIBUTED,
    (_CORE, "preempt"): _PREEMPT,
    (_CORE, "train"): _TRAIN,
    (_CLUSTER_INFO, "trial"): _TRIAL_INFO,
    (_CLUSTER_INFO, "trial_info"): _TRIAL_INFO,
}

#: What calls return, where it is not an object of the class that is called.
RESULTS: dict[str, str] = {
    "det_compat.info.get_cluster_info": _CLUSTER_INFO,
    "det_compat.pytorch.init": _CONTEXT,
    "det_compat.core.DistributedContext.from_torch_distributed": _DISTRIBUTED,
}

#: The arguments that functions take by keyword; others raise a TypeError, as in Determined 0.38.1.
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

#: Methods that only a context has, with its class: what has one of them called on it is one.
TELLTALE: dict[str, str] = each(
    "autocast_forward_pass configure_apex_amp current_train_batch current_train_epoch "
    "get_data_config get_experiment_config get_global_batch_size get_hparam get_hparams "
    "get_per_slot_batch_size get_trial_seed set_stop_requested step_optimizer "
    "wrap_lr_scheduler wrap_model wrap_optimizer wrap_reducer wrap_scaler",
    _CONTEXT,
)

"""Configs of several ages, in the forms that public ones have; written for these tests."""

from __future__ import annotations

from typing import Any

from det_compat.config import ExperimentConfig, parse_config

SINGLE = {"name": "single", "metric": "loss"}


def parsed(**keys: Any) -> ExperimentConfig:
    """A config with these keys, and a searcher if none is given."""
    return parse_config({"searcher": SINGLE, **keys})


PEDL = """
description: pedl
entrypoints:
  trial_class: model_def:Trial
  data_loaders_function: model_def:make_data_loaders
hyperparameters: {batch_size: 32, lr: {type: log, minval: -4, maxval: -1, base: 10}}
searcher: {name: adaptive, metric: error, target_trial_steps: 16, step_budget: 500, mode: standard,
  bracket_rungs: null, max_rungs: 3, divisor: 2, train_stragglers: true}
environment: {runtime_packages: [pandas], image: {cpu: a, gpu: b}}
resources: {slots_per_trial: 2, native_parallel: false, weight: 1.5}
tensorboard_storage: {type: shared_fs, host_path: /tmp}
security: {kerberos: {config_file: krb5.conf}}
"""

OLD = """
# 0.12
description: old
batches_per_step: 50
entrypoint: model_def:Trial
internal: null
hyperparameters:
  global_batch_size: {type: int, minval: 8, maxval: 64.0}
  betas: [0.9, 0.999]
  optimizer: {type: categorical, vals: [{name: sgd}, [1, 2], null, 0.5]}
searcher: {name: adaptive_simple, metric: error, max_steps: 8, max_trials: 4}
min_validation_period: 2
min_checkpoint_period: null
checkpoint_storage:
  {type: shared_fs, host_path: /tmp, storage_path: ckpt, container_path: /x, checkpoint_path: /y}
data_layer: {type: shared_fs, container_storage_path: null}
resources: {agent_label: '', shm_size: 8000000000}
environment:
  environment_variables: {cpu: [A=1], gpu: [A=2, "B=x=y"]}
  ports: null
"""

NESTED = """
name: nested
labels: [a, b]
entrypoint: python3 -m determined.launch.torch_distributed -- --trial model_def:Trial
records_per_epoch: 50_000
scheduling_unit: 10
hyperparameters:
  global_batch_size: &size 64
  model: {depth: {type: int, minval: 1, maxval: 8, count: 4}, act: relu, dims: [1, 2]}
  override.max_norm: 1e-4
  mixup: {type: const, val: {alpha: 1E-1, size: *size}}
searcher: {name: grid, metric: acc, smaller_is_better: false, max_length: {epochs: 2},
  max_concurrent_trials: 2}
min_validation_period: {epochs: 1}
min_checkpoint_period: {batches: 0}
checkpoint_policy: all
perform_initial_validation: yes
max_restarts: 0
reproducibility: {experiment_seed: 42}
bind_mounts: [{host_path: /data, container_path: /data, read_only: true}]
environment: {image: img, environment_variables: [NCCL_DEBUG=INFO], pod_spec: {spec: {}}}
optimizations: {aggregation_frequency: 4, mixed_precision: O1, gradient_compression: true}
profiling: {enabled: true, begin_on_batch: 10, end_after_batch: 20}
checkpoint_storage: {type: s3, bucket: b, prefix: a/./b, access_key: AKIA123, secret_key: s3cret}
resources: {slots_per_trial: 8, shm_size: 16G, devices: [{host_path: /a, container_path: /a}]}
"""

NEW = """
name: new
workspace: w
project: p
entrypoint: [python3, train.py, --epochs, "1"]
hyperparameters: {lr: {type: double, minval: .0001, maxval: 1.0}}
searcher: {name: adaptive_asha, metric: loss, time_metric: batches, max_time: 937, max_trials: 16}
integrations: {pachyderm: {dataset: {repo: r, token: t}}}
log_policies: [{pattern: ".*CUDA out of memory.*", action: {type: cancel_retries}}]
retention_policy: {log_retention_days: 90}
preemption_timeout: 300
resources: {is_single_node: true, resource_pool: a100, priority: 42}
environment: {proxy_ports: [{proxy_port: 8000, proxy_tcp: false}]}
slurm: {sbatch_args: [--exclusive]}
"""

ALL = {"pedl": PEDL, "old": OLD, "nested": NESTED, "new": NEW}

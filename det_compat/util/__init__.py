"""``determined.util``: the helpers of it that need no cluster."""

from det_compat.util.configs import (
    calculate_batch_sizes,
    filter_duplicates,
    mask_checkpoint_storage,
    mask_config_dict,
    match_legacy_trial_class,
    merge_dicts,
)
from det_compat.util.downloads import download_gcs_blob_with_backoff
from det_compat.util.files import force_create_symlink, rmtree_nfs_safe, write_user_code
from det_compat.util.functions import get_member_func, has_param, is_overridden
from det_compat.util.json_encoding import json_encode
from det_compat.util.metrics import (
    humanize_float,
    is_numerical_scalar,
    make_metrics,
    make_timing_log,
    validate_batch_metrics,
)
from det_compat.util.processes import check_sshd, forward_signals, signal_process_tree

__all__ = [
    "calculate_batch_sizes",
    "check_sshd",
    "download_gcs_blob_with_backoff",
    "filter_duplicates",
    "force_create_symlink",
    "forward_signals",
    "get_member_func",
    "has_param",
    "humanize_float",
    "is_numerical_scalar",
    "is_overridden",
    "json_encode",
    "make_metrics",
    "make_timing_log",
    "mask_checkpoint_storage",
    "mask_config_dict",
    "match_legacy_trial_class",
    "merge_dicts",
    "rmtree_nfs_safe",
    "signal_process_tree",
    "validate_batch_metrics",
    "write_user_code",
]

from __future__ import annotations

import os
import signal
import subprocess
import textwrap
from pathlib import Path

from tests.preloaded import executable

ROOT = Path(__file__).parents[2]

SCRIPT = textwrap.dedent(
    """
    import signal, sys, time
    from det_compat import pytorch
    from tests.adapters.trials import Linear

    # whatever pytest was started with
    signal.signal(signal.SIGINT, signal.default_int_handler)

    class Slow(Linear):
        def train_batch(self, batch, epoch_idx, batch_idx):
            if batch_idx == 1:
                print("training", flush=True)
            time.sleep(0.01)
            return super().train_batch(batch, epoch_idx, batch_idx)

    try:
        with pytorch.init(hparams={}, enable_tensorboard_logging=False) as context:
            pytorch.Trainer(Slow(context), context).fit(max_length=pytorch.Batch(5_000))
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
    """
)


def test_ctrl_c_does_to_a_script_what_it_does_without_lightning(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(tmp_path)}
    with subprocess.Popen(
        [executable(), "-c", SCRIPT],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "training\n"
        process.send_signal(signal.SIGINT)
        out = process.stdout.read()
    assert (process.returncode, out.strip()) == (130, "interrupted")

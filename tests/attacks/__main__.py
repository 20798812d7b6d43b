"""Attack det_compat until the time is over: ``python -m tests.attacks --minutes 30 --seed N``."""

from __future__ import annotations

import argparse
import collections
import itertools
import secrets
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

from tests.attacks import ATTACKS
from tests.attacks.storage import HAS_S3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=secrets.randbits(31))
    parser.add_argument("--only", choices=ATTACKS)
    args = parser.parse_args()
    print(f"seed {args.seed}, {args.minutes:g} minutes", flush=True)
    if not HAS_S3:
        print(
            "no S3: storage for all machines is a folder (pip install moto[server] s3fs)",
            flush=True,
        )
    names = itertools.cycle([args.only] if args.only else ATTACKS)
    made: collections.Counter[str] = collections.Counter()
    failed = 0
    end = time.monotonic() + 60 * args.minutes
    while time.monotonic() < end:
        name = next(names)
        rounds = 50 if name in ("checkpoints", "configs") else 1
        for _ in range(rounds):
            seed = f"{args.seed}/{name}/{made[name]}"
            made[name] += 1
            with tempfile.TemporaryDirectory(prefix="attack-") as folder:
                try:
                    ATTACKS[name](Random(seed), Path(folder))
                except Exception:
                    failed += 1
                    print(f"FAILED {seed}\n{traceback.format_exc()}", flush=True)
    print("; ".join(f"{name}: {count}" for name, count in made.items()), f"; {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

"""A load of one's own length: `--seconds 1800 --seed 7`; on more servers: `--servers 2 --database URL`."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.faults.load.run import Plan, load


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.load")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--kill-every", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--database", help="a PostgreSQL that several servers share")
    parser.add_argument("--redis")
    chosen = parser.parse_args()
    more = [("--database", chosen.database), ("--redis", chosen.redis)]
    arguments = tuple(part for name, value in more if value for part in (name, value))
    print(f"seed {chosen.seed}", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="lineloop-load-") as folder:
        plan = Plan(chosen.seconds, chosen.seed, chosen.kill_every)
        report = asyncio.run(load(plan, Path(folder), servers=chosen.servers, more=arguments))
    print(report.text())  # noqa: T201
    for violation in report.violations[:50]:
        print(violation)  # noqa: T201
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())

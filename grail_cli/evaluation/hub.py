"""Suites from the Hugging Face Hub through `datasets`, and into files for machines without a network."""

import json
from pathlib import Path

from ..errors import RunFailed
from ..files import write_text
from ..hub import advice, reachable
from .benchmarks import Suite, problems_of


def hub_rows(suite: Suite) -> list[dict]:
    """The rows of a suite's data set, out of `datasets`' cache where it has them.

    Raises RunFailed when neither cache nor network give them.
    """
    reachable()
    import datasets

    datasets.disable_progress_bars()
    try:
        table = datasets.load_dataset(suite.hub, suite.config, split=suite.split, revision=suite.revision)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RunFailed(
            f"{suite.hub} ({suite.split}) cannot be loaded: {first}",
            where=f"suite {suite.name}",
            kind="no_data",
            hint=advice(f"check the network, or give a folder with {suite.file}: --data-dir DIR"),
        ) from None
    return [dict(row) for row in table]


def fetch(suite: Suite, folder: Path) -> Path:
    """Write a suite's rows, as the Hub has them, to FOLDER/<file>; checked before, whole or not at all."""
    rows = hub_rows(suite)
    problems_of(suite, rows, f"Hub {suite.hub}")
    path = folder / suite.file
    write_text(path, "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows))
    return path

"""One look for every figure: colours that colour-blind readers tell apart, readable sizes, PNG and PDF from one call.

Colours are those of Okabe and Ito (2008); lines also differ in dash or marker, so that grey prints stay readable.
Maps: cividis for amounts, purple-orange for what lies above or below one. Figures are returned, never shown.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..files import write_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, BLACK, GREY, WINE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#8C8C8C", "#661100")
CYCLE = (BLUE, VERMILION, GREEN, PINK, ORANGE, SKY, BLACK, GREY, WINE)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "*")
SIGN_COLOUR = {"correct": BLUE, "wrong": VERMILION, "all": BLACK}
SIGN_DASH = {"correct": "-", "wrong": "--", "all": "-"}
DIVERGING, AMOUNT = "PuOr_r", "cividis"

_RC = {
    "font.size": 10, "axes.titlesize": 11, "axes.labelsize": 10, "legend.fontsize": 8.5, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    "grid.linewidth": 0.6, "lines.linewidth": 1.8, "lines.markersize": 4, "figure.dpi": 110, "pdf.fonttype": 42,
    "axes.axisbelow": True, "text.parse_math": False,
}


@contextmanager
def styled(columns: int = 1, rows: int = 1, *, width: float = 5.2, height: float = 3.6
           ) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure without a window, and its axes left to right, top to bottom; the style ends with the block."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def save_figure(figure: Figure, folder: str | Path, name: str) -> list[Path]:
    """Writes NAME.png and NAME.pdf, each whole; the PDF carries no date, so that equal data give equal files."""
    paths = []
    for kind in ("png", "pdf"):
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=160, metadata={"CreationDate": None} if kind == "pdf" else None)
        path = Path(folder) / f"{name}.{kind}"
        write_bytes(path, data.getvalue())
        paths.append(path)
    return paths


def step_colours(n: int) -> list:
    """n colours of an ordered series, dark to light; one alone is blue."""
    import matplotlib

    if n == 1:
        return [BLUE]
    return [matplotlib.colormaps[AMOUNT](i / (n - 1) * 0.78) for i in range(n)]


def note(figure: Figure, text: str) -> None:
    """A few words under the figure that say which data it shows, broken to its width."""
    lines = textwrap.wrap(text, width=int(figure.get_figwidth() * 15))
    figure.supxlabel("\n".join(lines), fontsize=8, color="#444444", x=0.01, ha="left")


def empty(axes: Axes, why: str) -> None:
    """Says in the panel why it shows nothing."""
    axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", va="center", color="#444444", wrap=True)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)


def numbers(values: list) -> list[float]:
    """Null of JSON back to NaN, which a line skips."""
    return [float("nan") if v is None else v for v in values]

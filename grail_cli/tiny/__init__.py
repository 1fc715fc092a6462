"""A small world in which the whole toolkit runs on a laptop: arithmetic and a model of 0.8 M parameters."""

from pathlib import Path


def tiny_model_path() -> Path:
    """The folder of the shipped checkpoint, an ordinary Hugging Face folder; presets name it `tiny`."""
    return Path(__file__).parent / "weights"

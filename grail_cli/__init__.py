"""grail: reinforcement learning with verifiable rewards on mathematics, from a preset to a table with error bars."""

__version__ = "0.1.0"

"""Training: GRPO from TRL with token credit, in a run folder that can be trusted and resumed.

Library entry: `from grail_cli.training.run import train`. Nothing heavy is imported here.
"""

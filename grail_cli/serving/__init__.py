"""A vLLM server that belongs to a command: checked before, watched meanwhile, gone afterwards."""

from .plan import Plan, ServeSettings, for_trainer, plan
from .server import Server, launch, launch_until_ready, start

__all__ = ["Plan", "ServeSettings", "Server", "for_trainer", "launch", "launch_until_ready", "plan", "start"]

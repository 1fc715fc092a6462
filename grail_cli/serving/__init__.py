"""A vLLM server that belongs to a command: checked before, watched meanwhile, gone afterwards."""

from .plan import Plan, ServeSettings, plan
from .server import Server, launch, launch_until_ready, start

__all__ = ["Plan", "ServeSettings", "Server", "launch", "launch_until_ready", "plan", "start"]

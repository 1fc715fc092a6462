"""What a demo refuses before it starts anything."""

import pytest

from grail_cli.console import Console
from grail_cli.demo.run import run_demo
from grail_cli.errors import GrailError


def test_the_methods_difference_cannot_be_overridden(tmp_path):
    with pytest.raises(GrailError, match="compares methods"):
        run_demo(tmp_path / "demo", sets=["credit.method=oar_g"], console=Console(quiet=True))

from bipareto.cli.main import main

__all__ = ["main"]

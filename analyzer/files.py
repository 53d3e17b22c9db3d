"""Files that appear whole or not at all."""

from ..common.files import write_whole

__all__ = ["write_whole"]

"""Importing this module lets the others here import the helpers of the tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

"""What holds for every test, the examples in docstrings and in the documentation too."""

import os

# A calibration of this machine would change what `explain` says.
os.environ["STREAMJOIN_CALIBRATION"] = os.devnull + "-none"

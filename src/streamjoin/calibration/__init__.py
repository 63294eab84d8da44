"""``streamjoin calibrate``: measures this machine, so that ``"auto"`` chooses what is best on it.

Writes the file that `choice.calibration_file` reads. Only the command line imports it.
"""

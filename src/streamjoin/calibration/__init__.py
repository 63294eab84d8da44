"""``streamjoin calibrate``: measures this machine, so that ``"auto"`` chooses what is best on it.

It writes the file that `choice.calibration_file` reads. Only the command line imports it.
"""

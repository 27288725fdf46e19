"""rangeify:

`Graph` → `RangedGraph`. Movement becomes index arithmetic over RANGEs; what is stored becomes
BUFFERIZE.
"""

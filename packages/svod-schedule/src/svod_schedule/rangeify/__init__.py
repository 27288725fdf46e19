"""rangeify:

`Graph` → `RangedGraph`. Movement ops become index arithmetic over RANGEs; a materialized value
becomes a BUFFERIZE.
"""

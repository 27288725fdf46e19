"""kernelize:

`RangedGraph` → `KernelGraph`. Each materialized value becomes a CALL that fills a buffer.
"""

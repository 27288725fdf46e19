"""kernelize:

`RangedGraph` → `KernelGraph`. Each stored value becomes a CALL that fills a buffer.
"""

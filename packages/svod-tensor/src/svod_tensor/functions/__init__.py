"""The functions of the array API standard; `svod_tensor` has them all, and imports each file when one of its names is asked for."""

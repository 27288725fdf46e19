"""All runs of many steps, since imports take much of the time of each.

Arguments: those of `transformer.py`.
"""

import sys

import shallow_water
import transformer

shallow_water.main()
transformer.main(sys.argv[1], is_thorough="thorough" in sys.argv)

"""Random programs on sharded tensors: `random_programs.py FIRST COUNT LANGUAGE…`.

Prints the seeds that failed, and ends with 1 if there are any.
"""

import sys
from itertools import product

from mpi4py import MPI

import svod_mpi
from svod_testing import check_sharded_program

first, count, languages = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
n = MPI.COMM_WORLD.Get_size()
meshes = [svod_mpi.Mesh(data=n)]
if n % 2 == 0:
    meshes.append(svod_mpi.Mesh(data=2, model=n // 2))
failed = False
for language, seed in product(languages, range(first, first + count)):
    problem = check_sharded_program(language, seed, meshes)
    if problem is not None:
        failed = True
        if MPI.COMM_WORLD.Get_rank() == 0:
            print(f"{language} {seed}: {problem}", flush=True)
sys.exit(failed)

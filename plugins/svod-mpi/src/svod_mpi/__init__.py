"""Tensors sharded over the processes of MPI."""

from svod_mpi._mesh import Mesh
from svod_mpi.errors import MeshError

__all__ = ["Mesh", "MeshError"]

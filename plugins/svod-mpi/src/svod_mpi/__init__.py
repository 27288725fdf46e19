"""Tensors sharded over the processes of MPI."""

from svod_mpi._failures import install_hooks
from svod_mpi._mesh import Mesh
from svod_mpi.errors import MeshError

__all__ = ["Mesh", "MeshError"]

install_hooks()

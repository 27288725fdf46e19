"""Tensors sharded over the processes of MPI."""

from svod_mpi._checkpoints import load, save
from svod_mpi._failures import install_hooks
from svod_mpi._mesh import Mesh
from svod_mpi._profiles import MeshReport, RankProfile, profile
from svod_mpi.errors import CheckpointError, MeshError

__all__ = [
    "CheckpointError",
    "Mesh",
    "MeshError",
    "MeshReport",
    "RankProfile",
    "load",
    "profile",
    "save",
]

install_hooks()

"""LLVM backend: rendering to LLVM assembly, compiling and loading."""

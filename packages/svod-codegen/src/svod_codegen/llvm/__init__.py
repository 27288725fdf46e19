"""The LLVM side of svod-codegen: rendering to LLVM assembly, compiling and loading."""

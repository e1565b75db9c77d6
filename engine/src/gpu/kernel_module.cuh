// Modules: what the driver loads of a program, the kernels and variables of one source file.
#pragma once

struct CUmod_st;

namespace volley::gpu {

// The driver's handle of a module.
using ModuleHandle = CUmod_st*;

// The module that contains the kernel.
[[nodiscard]] ModuleHandle module_containing(const void* kernel);

}  // namespace volley::gpu

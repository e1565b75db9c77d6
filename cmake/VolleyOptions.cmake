# volley_options: language level, warnings and sanitizers of every target here.
add_library(volley_options INTERFACE)

set(cxx $<COMPILE_LANGUAGE:CXX>)
set(cuda $<COMPILE_LANGUAGE:CUDA>)
set(warnings -Wall -Wextra -Wshadow -Wconversion -Wnon-virtual-dtor)
if(VOLLEY_WERROR)
  list(APPEND warnings -Werror)
endif()
target_compile_options(volley_options INTERFACE
  -std=c++20   # not CMAKE_CXX_STANDARD: CUDA takes it over, and CMake 3.25 knows no CUDA 20
  "$<${cxx}:${warnings};-Wpedantic>"
  "$<${cxx}:-pthread>"   # some MPIs' wrappers say it; precompiled headers are used with the same options only
  "$<${cuda}:--expt-relaxed-constexpr>"   # kernels call constexpr functions of the host, e.g. those of messages/pattern.hpp
  # Host halves of .cu files: what nvcc generates itself is not free of conversions.
  "$<${cuda}:-Xcompiler=-Wall,-Wextra,-Wshadow$<$<BOOL:${VOLLEY_WERROR}>:,-Werror>>"
  "$<$<AND:${cuda},$<BOOL:${VOLLEY_WERROR}>>:-Werror=all-warnings>")

# A wheel says nothing of the machine that built it, and two builds of one source are the same.
set(prefix_map -ffile-prefix-map=${PROJECT_BINARY_DIR}/= -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
target_compile_options(volley_options INTERFACE "$<${cxx}:${prefix_map}>" "$<${cuda}:-Xcompiler=$<JOIN:${prefix_map},$<COMMA>>>")

if(VOLLEY_SANITIZE)
  set(sanitizers -fsanitize=${VOLLEY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(volley_options INTERFACE "$<${cxx}:${sanitizers}>")
  target_link_options(volley_options INTERFACE ${sanitizers})
endif()

# Where nvcc and nlohmann/json come from: build_backend/machine.py decides, for the backend and for CMake alike.
# Asked once, at the first configure; the answers stay in the cache with the paths that follow from them.
#
# Sets VOLLEY_NVCC (empty: none is wanted or there is none), VOLLEY_NO_NVCC_BECAUSE (in words), VOLLEY_GPUS_HERE (the architectures of this machine's GPUs, if known), VOLLEY_NCCL_INCLUDE and
# VOLLEY_NVSHMEM_INCLUDE (headers for kernels; empty: none), VOLLEY_JSON_INCLUDE (empty: the compiler finds it; NOTFOUND: nobody has it).
if(NOT DEFINED VOLLEY_NVCC)
  if(NOT Python_EXECUTABLE)   # scikit-build-core and the presets say which
    find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
  endif()

  # What was said with -D counts as if it had been said in the environment.
  foreach(pair "CMAKE_CUDA_COMPILER=CUDACXX" "VOLLEY_CUDA=VOLLEY_CUDA" "VOLLEY_CUDA_ARCHITECTURES=VOLLEY_CUDA_ARCHITECTURES")
    string(REGEX MATCH "(.*)=(.*)" pair "${pair}")
    if(NOT "${${CMAKE_MATCH_1}}" STREQUAL "")
      set(ENV{${CMAKE_MATCH_2}} "${${CMAKE_MATCH_1}}")
    endif()
  endforeach()

  execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/build_backend/machine.py
                  OUTPUT_VARIABLE answers ERROR_VARIABLE problem RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${problem}")
  endif()
  string(REPLACE "\n" ";" answers "${answers}")
  foreach(answer IN LISTS answers)
    string(REGEX MATCH "^([A-Z_]+)=(.*)$" answer "${answer}")
    set(${CMAKE_MATCH_1} "${CMAKE_MATCH_2}" CACHE INTERNAL "answer of build_backend/machine.py")
  endforeach()
endif()

add_library(volley_json INTERFACE)
if(VOLLEY_JSON_INCLUDE STREQUAL "NOTFOUND")   # neither the compiler nor a wheel has it: a package of a site may
  find_package(nlohmann_json 3.11 QUIET)
  if(NOT nlohmann_json_FOUND)
    message(FATAL_ERROR "There is no nlohmann/json.hpp: install it (Debian, Ubuntu: apt install nlohmann-json3-dev; "
                        "pip install nlohmann-json; spack load nlohmann-json), or name its prefix in CMAKE_PREFIX_PATH")
  endif()
  target_link_libraries(volley_json INTERFACE nlohmann_json::nlohmann_json)
elseif(VOLLEY_JSON_INCLUDE)
  target_include_directories(volley_json SYSTEM INTERFACE ${VOLLEY_JSON_INCLUDE})
endif()

# CUDA, where an nvcc can be had. Sets VOLLEY_CUDA_VERSION ("13.0", empty: built without CUDA) and
# VOLLEY_CUDA_CODE (the architectures with machine code, and -virtual ones with PTX, separated by spaces).
#
# The toolkit is not searched for: the wheels have no libcudart.so, and CMake's CUDA language links the static runtime
# by itself, which makes the engine run where there is no driver.
set(VOLLEY_CUDA_VERSION "")
set(VOLLEY_CUDA_CODE "")

# Architectures to compile for: those asked for; else those of this machine's GPUs, with PTX for newer ones; else all.
# All: machine code for each generation from 7.0 to 12.0 that this nvcc knows (CUDA 13 dropped
# 7.0). PTX, for GPUs newer than these, where their driver is sure to take it: that of a release's first minor version,
# which every driver of the release accepts, and that of an nvcc older than Blackwell, whose drivers are newer.
function(volley_cuda_architectures nvcc version out)
  if(VOLLEY_CUDA_ARCHITECTURES AND NOT VOLLEY_CUDA_ARCHITECTURES STREQUAL "all")
    set(${out} "${VOLLEY_CUDA_ARCHITECTURES}" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${nvcc} --list-gpu-code OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  if(NOT VOLLEY_CUDA_ARCHITECTURES)
    string(REPLACE " " ";" here "${VOLLEY_GPUS_HERE}")
    set(missing ${here})
    list(FILTER missing EXCLUDE REGEX "^$")
    foreach(architecture IN LISTS here)
      if(known MATCHES "sm_${architecture}[\r\n]")
        list(REMOVE_ITEM missing ${architecture})
      endif()
    endforeach()
    if(here AND NOT missing)
      set(${out} "${here}" PARENT_SCOPE)
      return()
    endif()
  endif()
  set(architectures "")
  # Machine code of a major version runs on every later minor one: 8.0's on 8.6 and 8.9, 10.0's on 10.3.
  foreach(architecture 70 75 80 90 100 120)
    if(known MATCHES "sm_${architecture}[\r\n]")
      list(APPEND architectures ${architecture}-real)
      set(newest ${architecture})
    endif()
  endforeach()
  if(version MATCHES "\\.0$" OR newest LESS 120)
    list(APPEND architectures ${newest}-virtual)
  endif()
  set(${out} "${architectures}" PARENT_SCOPE)
endfunction()

# Whether nvcc and the C++ compiler work together (an nvcc refuses compilers newer than itself): compiles and links.
function(volley_try_nvcc nvcc flags out_problem)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/nvcc_probe.cu)
  file(WRITE ${source} "#include <vector>\n__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); }\n")
  execute_process(COMMAND ${nvcc} -std=c++20 -ccbin ${CMAKE_CXX_COMPILER} ${flags} ${source} -o ${source}.out
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(${out_problem} "${said}" PARENT_SCOPE)
  endif()
endfunction()

if(VOLLEY_CUDA STREQUAL "")
  set(VOLLEY_CUDA AUTO)
endif()
if(VOLLEY_CUDA STREQUAL "AUTO")
  set(cuda_missing STATUS)
else()
  set(cuda_missing FATAL_ERROR)
endif()

if(VOLLEY_CUDA)
  if(NOT VOLLEY_NVCC)
    message(${cuda_missing} "CUDA: none, ${VOLLEY_NO_NVCC_BECAUSE}; the engine is built without its GPU transports")
  else()
    execute_process(COMMAND ${VOLLEY_NVCC} --version OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" said "${said}")
    set(nvcc_version ${CMAKE_MATCH_1})

    # 13.0 and 13.1 look for the runtime in lib64, which the wheels do not have. The flag reaches CMake's own checks too.
    get_filename_component(toolkit ${VOLLEY_NVCC}/../.. ABSOLUTE)
    if(EXISTS ${toolkit}/lib/libcudart_static.a AND NOT EXISTS ${toolkit}/lib64)
      set(cuda_flags "-L${toolkit}/lib")
    endif()

    if(NOT DEFINED CACHE{CMAKE_CUDA_COMPILER})   # else it has been tried, or somebody insists on it
      volley_try_nvcc(${VOLLEY_NVCC} "${cuda_flags}" problem)
    endif()
    if(problem)
      message(${cuda_missing} "CUDA: none, ${VOLLEY_NVCC} does not work with ${CMAKE_CXX_COMPILER} (CXX= chooses another "
                              "C++ compiler); the engine is built without its GPU transports. It said:\n${problem}")
    else()
      volley_cuda_architectures(${VOLLEY_NVCC} ${nvcc_version} CMAKE_CUDA_ARCHITECTURES)
      string(APPEND CMAKE_CUDA_FLAGS " -Wno-deprecated-gpu-targets ${cuda_flags}")
      set(CMAKE_CUDA_COMPILER ${VOLLEY_NVCC} CACHE FILEPATH "CUDA compiler" FORCE)
      set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "nvcc's host compiler")
      set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
      enable_language(CUDA)
      set(VOLLEY_CUDA_VERSION ${nvcc_version})
      # Of an architecture without a suffix there is machine code and PTX, which CMake calls virtual.
      set(VOLLEY_CUDA_CODE ${CMAKE_CUDA_ARCHITECTURES})
      list(TRANSFORM VOLLEY_CUDA_CODE REPLACE "^([0-9]+[a-z]?)$" "\\1;\\1-virtual")
      list(TRANSFORM VOLLEY_CUDA_CODE REPLACE "-real$" "")
      list(JOIN VOLLEY_CUDA_CODE " " VOLLEY_CUDA_CODE)
      message(STATUS "CUDA: ${VOLLEY_CUDA_VERSION}, ${VOLLEY_NVCC}, for ${CMAKE_CUDA_ARCHITECTURES}")
    endif()
  endif()
endif()

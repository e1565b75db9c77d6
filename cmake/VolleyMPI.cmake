# MPI through FindMPI's C component, and what the front must know of it at run time.
#
# Sets VOLLEY_MPI_FAMILY (openmpi | mpich | other), VOLLEY_MPI_VERSION, VOLLEY_MPI_LIBDIR, VOLLEY_RPATH (of the installed
# engine), and gives MPI::MPI_C.

set(MPI_C_COMPILER ${VOLLEY_MPICC})
# FindMPI takes what a wrapper says on stderr for flags, and Open MPI's complains there where there is no network at all.
execute_process(COMMAND ${VOLLEY_MPICC} -show OUTPUT_QUIET ERROR_VARIABLE complaint)
if(complaint)
  set(MPI_C_COMPILER ${CMAKE_CURRENT_BINARY_DIR}/mpicc)
  file(WRITE ${MPI_C_COMPILER} "#!/bin/sh\nexec '${VOLLEY_MPICC}' \"$@\" 2>/dev/null\n")
  file(CHMOD ${MPI_C_COMPILER} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endif()
set(MPI_SKIP_GUESSING TRUE)   # this MPI or none: never another one that happens to lie about
find_package(MPI REQUIRED COMPONENTS C)

# The wrapper's -Wl,-rpath may name a build environment that is thrown away: dead in the installed engine, and under
# /tmp a way to slip in another library. The run path is ours alone to set.
set_target_properties(MPI::MPI_C PROPERTIES INTERFACE_LINK_OPTIONS "")
# Debian's Open MPI 4.1 and MPICH would pull in the old C++ bindings.
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)

# The directory where the loader will find the library. Debian keeps a bare libmpi.so among the development files; the
# versioned file that the program needs then lies where the link leads.
set(VOLLEY_MPI_LIBDIR "")
foreach(library IN LISTS MPI_C_LIBRARIES)
  get_filename_component(name ${library} NAME)
  if(name MATCHES "^lib[a-z]*mpi.*\\.so")
    get_filename_component(VOLLEY_MPI_LIBDIR ${library} DIRECTORY)
    file(GLOB versioned ${VOLLEY_MPI_LIBDIR}/${name}.*)
    if(NOT versioned)
      file(REAL_PATH ${library} library)
      get_filename_component(VOLLEY_MPI_LIBDIR ${library} DIRECTORY)
    endif()
    break()
  endif()
endforeach()

if(VOLLEY_MPI_SOURCE STREQUAL "wheel")
  set(VOLLEY_RPATH "$ORIGIN/../../../..")   # site-packages/volley/bin -> the environment's lib
else()
  set(VOLLEY_RPATH "${VOLLEY_MPI_LIBDIR}")   # empty where a compiler wrapper hides the library: the site's loader knows
endif()

# Family and version, from the preprocessor: nothing is run, nothing is guessed from the path.
set(probe ${CMAKE_CURRENT_BINARY_DIR}/mpi_probe.c)
file(WRITE ${probe} [[
#include <mpi.h>
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#if defined OMPI_MAJOR_VERSION
"volley: openmpi " TEXT(OMPI_MAJOR_VERSION) "." TEXT(OMPI_MINOR_VERSION) "." TEXT(OMPI_RELEASE_VERSION)
#elif defined MPICH_VERSION
"volley: mpich " MPICH_VERSION
#else
"volley: other " TEXT(MPI_VERSION) "." TEXT(MPI_SUBVERSION)
#endif
]])
list(TRANSFORM MPI_C_INCLUDE_DIRS PREPEND -I OUTPUT_VARIABLE includes)
execute_process(COMMAND ${CMAKE_C_COMPILER} -E -P ${includes} ${probe}
                OUTPUT_VARIABLE preprocessed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "\"volley: [^\n]*" line "${preprocessed}")
string(REGEX REPLACE "\" *\"|\"" "" line "${line}")
if(NOT line MATCHES "volley: ([a-z]+) (.+)")
  message(FATAL_ERROR "mpi.h of ${VOLLEY_MPICC} does not say which MPI it belongs to:\n${preprocessed}")
endif()
set(VOLLEY_MPI_FAMILY ${CMAKE_MATCH_1})
set(VOLLEY_MPI_VERSION ${CMAKE_MATCH_2})
message(STATUS "MPI: ${VOLLEY_MPI_FAMILY} ${VOLLEY_MPI_VERSION} (${VOLLEY_MPI_SOURCE}), ${VOLLEY_MPICC}; "
               "run path ${VOLLEY_RPATH}")

# Finds the MPI of choice through its compiler wrapper and sets
#   TUTTI_HAVE_MPI   0 or 1
#   TUTTI_MPI_NAME   openmpi, mpich (and what descends from it) or none
#   TUTTI_MPIEXEC    its mpirun
#   TUTTI_MPI_MODULE its pkg-config module, empty when it has none
# and the target MPI::MPI_C.

set(TUTTI_HAVE_MPI 0)
set(TUTTI_MPI_NAME none)
set(TUTTI_MPIEXEC "")
set(TUTTI_MPI_MODULE "")

# Which family an MPI belongs to is a fact of its header, not of its file names.
function(tutti_mpi_family out)
    include(CheckSymbolExists)
    set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
    check_symbol_exists(OPEN_MPI mpi.h TUTTI_MPI_IS_OPENMPI)
    set(${out} mpich PARENT_SCOPE)
    if(TUTTI_MPI_IS_OPENMPI)
        set(${out} openmpi PARENT_SCOPE)
    endif()
endfunction()

# A module counts only when it describes the MPI that is used: same include directory.
function(tutti_mpi_module out)
    set(${out} "" PARENT_SCOPE)
    foreach(module ompi-c mpich)
        pkg_check_modules(TUTTI_PC_${module} QUIET ${module})
        foreach(dir ${TUTTI_PC_${module}_INCLUDE_DIRS})
            if(dir IN_LIST MPI_C_INCLUDE_DIRS)
                set(${out} ${module} PARENT_SCOPE)
            endif()
        endforeach()
    endforeach()
endfunction()

if(TUTTI_MPI STREQUAL "openmpi")
    find_program(MPI_C_COMPILER NAMES mpicc.openmpi mpicc)
    find_program(MPIEXEC_EXECUTABLE NAMES mpirun.openmpi mpirun)
elseif(TUTTI_MPI STREQUAL "mpich")
    find_program(MPI_C_COMPILER NAMES mpicc.mpich mpicc)
    find_program(MPIEXEC_EXECUTABLE NAMES mpirun.mpich mpiexec.hydra mpirun)
elseif(NOT TUTTI_MPI MATCHES "^(auto|off)$")
    message(FATAL_ERROR "TUTTI_MPI=${TUTTI_MPI}: choose auto, openmpi, mpich or off")
endif()

if(NOT TUTTI_MPI STREQUAL "off")
    find_package(MPI COMPONENTS C)
    if(MPI_C_FOUND)
        set(TUTTI_HAVE_MPI 1)
        set(TUTTI_MPIEXEC ${MPIEXEC_EXECUTABLE})
        tutti_mpi_family(TUTTI_MPI_NAME)
        tutti_mpi_module(TUTTI_MPI_MODULE)
    endif()
    if(NOT TUTTI_MPI STREQUAL "auto" AND NOT TUTTI_MPI_NAME STREQUAL TUTTI_MPI)
        message(FATAL_ERROR "TUTTI_MPI=${TUTTI_MPI}, but what was found is "
            "${TUTTI_MPI_NAME}; install libopenmpi-dev or libmpich-dev, set "
            "MPI_C_COMPILER to its mpicc, or configure with -DTUTTI_MPI=off")
    endif()
endif()
message(STATUS "tutti: MPI is ${TUTTI_MPI_NAME} ${TUTTI_MPIEXEC}")

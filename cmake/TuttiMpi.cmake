# Finds the MPI of choice through its compiler wrapper and sets
#   TUTTI_HAVE_MPI   0 or 1
#   TUTTI_MPI_NAME   openmpi, mpich (and what descends from it) or none
#   TUTTI_MPIEXEC    its mpirun
#   TUTTI_MPI_MODULE its pkg-config module, empty when it has none
#   TUTTI_MPI_PLUGINS  the MPIs that get a plug-in
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

# The MPIs that get a plug-in: this one, and what else has a compiler wrapper of Debian's name (for the standard
# ABI of MPI 5.0, section 20, that of Open MPI and MPICH), or is named by TUTTI_MPICC_OPENMPI, TUTTI_MPICC_MPICH
# or TUTTI_MPICC_ABI. Each has a target tutti_with_<name>.
function(tutti_add_mpi family)
    string(TOUPPER TUTTI_MPICC_${family} wrapper)
    find_program(${wrapper} NAMES mpicc.${family} mpicc_${family} DOC "for the plug-in of ${family}")
    mark_as_advanced(${wrapper})
    if(NOT ${wrapper})
        return()
    endif()
    execute_process(COMMAND ${${wrapper}} -show OUTPUT_VARIABLE shown ERROR_QUIET)
    separate_arguments(shown UNIX_COMMAND "${shown}")
    add_library(tutti_with_${family} INTERFACE)
    foreach(word ${shown})
        if(word MATCHES "^-I(.+)")
            target_include_directories(tutti_with_${family} SYSTEM INTERFACE ${CMAKE_MATCH_1})
        elseif(word MATCHES "^-L(.+)")
            target_link_directories(tutti_with_${family} INTERFACE ${CMAKE_MATCH_1})
        elseif(word MATCHES "^-l(.+)")
            target_link_libraries(tutti_with_${family} INTERFACE ${CMAKE_MATCH_1})
        endif()
    endforeach()
    set(TUTTI_MPI_PLUGINS ${TUTTI_MPI_PLUGINS} ${family} PARENT_SCOPE)
endfunction()

set(TUTTI_MPI_PLUGINS "")
if(TUTTI_HAVE_MPI)
    set(TUTTI_MPI_PLUGINS ${TUTTI_MPI_NAME})
    add_library(tutti_with_${TUTTI_MPI_NAME} INTERFACE)
    target_link_libraries(tutti_with_${TUTTI_MPI_NAME} INTERFACE MPI::MPI_C)
    foreach(family openmpi mpich abi)
        if(NOT family STREQUAL TUTTI_MPI_NAME AND NOT TUTTI_ROOMS_FROM)
            tutti_add_mpi(${family})
        endif()
    endforeach()
    message(STATUS "tutti: plug-ins for ${TUTTI_MPI_PLUGINS}")
endif()

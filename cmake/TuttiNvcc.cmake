# nvcc, which makes the GPU's kernels. Nothing else of the build needs CUDA: without nvcc the
# library is the same but for the kernels, and loads driver and NCCL at run time all the same.
#
# Sets TUTTI_HAVE_NVCC, and provides tutti_image().

set(TUTTI_CUDA "auto" CACHE STRING "GPU kernels: auto (if nvcc is found and works), on, off")
set_property(CACHE TUTTI_CUDA PROPERTY STRINGS auto on off)
set(TUTTI_CUDA_ARCHITECTURES "75;80;86;89;90;100" CACHE STRING
    "compute capabilities to make kernels for, as far as nvcc knows them")

# Compiles a kernel for an architecture that nvcc lists, with the host compiler it finds.
function(tutti_check_nvcc result)
    set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/nvcc_probe.cu)
    file(WRITE ${probe} "extern \"C\" __global__ void probe(int *x) { *x = 1; }\n")
    execute_process(
        COMMAND ${TUTTI_NVCC} -std=c++17 -fatbin -o ${probe}.fatbin ${probe}
        RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(status EQUAL 0)
        set(${result} "" PARENT_SCOPE)
    else()
        string(REGEX REPLACE "\n.*" "" first "${output}")
        set(${result} "${first}" PARENT_SCOPE)
    endif()
endfunction()

# What this nvcc can do: TUTTI_NVCC_ARCHITECTURES, the wanted ones that it has, and
# TUTTI_NVCC_COMPRESS, where all drivers that load its code can decompress it: from 13 on.
function(tutti_ask_nvcc)
    execute_process(COMMAND ${TUTTI_NVCC} --version OUTPUT_VARIABLE version ERROR_QUIET)
    if("${version}" MATCHES "release ([0-9]+)" AND CMAKE_MATCH_1 GREATER_EQUAL 13)
        set(TUTTI_NVCC_COMPRESS --compress-mode=size CACHE INTERNAL "")
    else()
        set(TUTTI_NVCC_COMPRESS "" CACHE INTERNAL "")
    endif()
    execute_process(COMMAND ${TUTTI_NVCC} --list-gpu-arch
        OUTPUT_VARIABLE known ERROR_QUIET)
    foreach(architecture ${TUTTI_CUDA_ARCHITECTURES})
        if("${known}" MATCHES "compute_${architecture}[^0-9]")
            list(APPEND architectures ${architecture})
        endif()
    endforeach()
    set(TUTTI_NVCC_ARCHITECTURES "${architectures}" CACHE INTERNAL "")
endfunction()

set(TUTTI_HAVE_NVCC FALSE)
if(NOT TUTTI_CUDA STREQUAL "off")
    find_program(TUTTI_NVCC nvcc
        HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    if(TUTTI_NVCC AND NOT TUTTI_NVCC STREQUAL TUTTI_NVCC_CHECKED)
        tutti_check_nvcc(problem)
        set(TUTTI_NVCC_PROBLEM "${problem}" CACHE INTERNAL "")
        set(TUTTI_NVCC_CHECKED "${TUTTI_NVCC}" CACHE INTERNAL "")
        tutti_ask_nvcc()
    endif()
    if(NOT TUTTI_NVCC)
        set(problem "no nvcc was found")
    elseif(TUTTI_NVCC_PROBLEM)
        set(problem "${TUTTI_NVCC} does not work: ${TUTTI_NVCC_PROBLEM}")
    elseif(NOT TUTTI_NVCC_ARCHITECTURES)
        set(problem "${TUTTI_NVCC} has none of the architectures ${TUTTI_CUDA_ARCHITECTURES}")
    else()
        set(problem "")
        set(TUTTI_HAVE_NVCC TRUE)
    endif()
    if(TUTTI_CUDA STREQUAL "on" AND NOT TUTTI_HAVE_NVCC)
        message(FATAL_ERROR "TUTTI_CUDA=on, but ${problem}")
    endif()
endif()
if(TUTTI_HAVE_NVCC)
    message(STATUS "GPU kernels: ${TUTTI_NVCC}, for ${TUTTI_NVCC_ARCHITECTURES}")
elseif(TUTTI_CUDA STREQUAL "off")
    message(STATUS "GPU kernels: none (TUTTI_CUDA=off)")
else()
    message(STATUS "GPU kernels: none (${problem})")
endif()

# nvcc's options for code of all architectures, and PTX for later GPUs. From 80 on the kernels
# use the same instructions of PTX, so that half of the compiler runs only once for all.
function(tutti_nvcc_code result)
    set(code "")
    set(shared "")
    foreach(architecture ${TUTTI_NVCC_ARCHITECTURES})
        if(architecture LESS 80)
            list(APPEND code
                -gencode arch=compute_${architecture},code=sm_${architecture})
            set(last ${architecture})
        else()
            list(APPEND shared ${architecture})
        endif()
    endforeach()
    foreach(architecture ${shared})
        list(GET shared 0 last)
        list(APPEND code -gencode arch=compute_${last},code=sm_${architecture})
    endforeach()
    list(APPEND code -gencode arch=compute_${last},code=compute_${last})
    set(${result} ${code} PARENT_SCOPE)
endfunction()

# tutti_image(TARGET target NAME name DIRECTORY directory DEPENDS files...): adds the kernels of
# name.cu, for all architectures, to a target: bytes from tutti_<name>_image up to
# tutti_<name>_image_end. Needs the language ASM.
function(tutti_image)
    cmake_parse_arguments(IMAGE "" "TARGET;NAME;DIRECTORY" "DEPENDS" ${ARGN})
    set(IMAGE_FILE ${CMAKE_CURRENT_BINARY_DIR}/${IMAGE_NAME}.fatbin)
    set(assembly ${CMAKE_CURRENT_BINARY_DIR}/${IMAGE_NAME}_image.S)
    set(source ${IMAGE_DIRECTORY}/${IMAGE_NAME}.cu)
    list(TRANSFORM IMAGE_DEPENDS PREPEND ${IMAGE_DIRECTORY}/)
    tutti_nvcc_code(code)
    add_custom_command(OUTPUT ${IMAGE_FILE}
        COMMAND ${TUTTI_NVCC} -std=c++17 --threads 2 ${TUTTI_NVCC_COMPRESS}
            -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include ${code} -fatbin
            -o ${IMAGE_FILE} ${source}
        DEPENDS ${source} ${IMAGE_DEPENDS}
        COMMENT "Making the GPU's kernels of ${IMAGE_NAME}.cu" VERBATIM)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/image.S.in ${assembly} @ONLY)
    set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${IMAGE_FILE})
    target_sources(${IMAGE_TARGET} PRIVATE ${assembly})
endfunction()

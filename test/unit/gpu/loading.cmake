# Loading of CUDA and NCCL, over the simulated driver and an NCCL that has only a version; a
# symbol that is renamed is missing.
foreach(name fake_nccl fake_nccl_torn)
    add_library(${name} MODULE fake_nccl.c)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE tutti_flags)
    set_target_properties(${name} PROPERTIES C_VISIBILITY_PRESET default)
endforeach()
target_compile_definitions(fake_nccl_torn PRIVATE ncclSend=ncclSend_of_a_later_version)

# The real ones, where the toolkit and NCCL are installed: "" where they are not.
find_path(TUTTI_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda ENV CUDA_PATH ENV CUDA_HOME
    PATH_SUFFIXES include)
find_path(TUTTI_NCCL_INCLUDE nccl.h PATHS /usr/local/cuda ENV NCCL_HOME
    PATH_SUFFIXES include)
mark_as_advanced(TUTTI_CUDA_INCLUDE TUTTI_NCCL_INCLUDE)

tutti_unit_test(NAME test_gpu_loading ROOM gpu
    SOURCES test_gpu_loading.c
    LIBS tutti_gpusim_cuda)
add_dependencies(test_gpu_loading fake_nccl fake_nccl_torn)
target_compile_definitions(test_gpu_loading PRIVATE
    LIBRARIES="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")

foreach(name cuda nccl)
    string(TOUPPER ${name} upper)
    add_test(NAME unit.gpu_headers_${name}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers ${CMAKE_C_COMPILER}
            ${PROJECT_SOURCE_DIR} ${name} "${TUTTI_${upper}_INCLUDE}" "${TUTTI_CUDA_INCLUDE}")
    set_tests_properties(unit.gpu_headers_${name} PROPERTIES
        LABELS unit TIMEOUT ${TUTTI_TEST_LIMIT} SKIP_RETURN_CODE 77)
endforeach()

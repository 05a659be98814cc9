# Loading of CUDA and NCCL, over small shared objects that stand in for them: FAKE_... in the
# environment says what they answer, and a symbol that is renamed is missing.

# tutti_fake(NAME SOURCES... [LACKS symbols...])
function(tutti_fake name)
    cmake_parse_arguments(FAKE "" "" "SOURCES;LACKS" ${ARGN})
    add_library(${name} MODULE ${FAKE_SOURCES})
    target_include_directories(${name} PRIVATE
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE tutti_flags)
    set_target_properties(${name} PROPERTIES C_VISIBILITY_PRESET default)
    foreach(symbol ${FAKE_LACKS})
        target_compile_definitions(${name} PRIVATE ${symbol}=${symbol}_of_a_later_version)
    endforeach()
endfunction()

tutti_fake(fake_cuda SOURCES fake_cuda.c fake_cuda_calls.c)
tutti_fake(fake_cuda_10 SOURCES fake_cuda.c fake_cuda_calls.c LACKS cuLaunchHostFunc)
tutti_fake(fake_cuda_11 SOURCES fake_cuda.c fake_cuda_calls.c
    LACKS cuLibraryLoadData cuLibraryUnload cuLibraryGetKernel cuKernelGetFunction
        cuDeviceGetUuid_v2)
tutti_fake(fake_nccl SOURCES fake_nccl.c fake_nccl_calls.c)
tutti_fake(fake_nccl_torn SOURCES fake_nccl.c fake_nccl_calls.c LACKS ncclSend)
tutti_fake(fake_nccl_thin SOURCES fake_nccl.c fake_nccl_calls.c LACKS ncclCommRevoke)

# The real ones, where the toolkit and NCCL are installed: "" where they are not.
find_library(TUTTI_CUDA_STUB NAMES cuda NO_DEFAULT_PATH
    PATHS /usr/local/cuda ENV CUDA_PATH ENV CUDA_HOME
    PATH_SUFFIXES lib64/stubs lib/stubs targets/x86_64-linux/lib/stubs
        targets/sbsa-linux/lib/stubs)
find_library(TUTTI_NCCL NAMES libnccl.so.2 nccl
    PATHS /usr/local/cuda ENV NCCL_HOME PATH_SUFFIXES lib64 lib)
find_path(TUTTI_CUDA_INCLUDE cuda.h PATHS /usr/local/cuda ENV CUDA_PATH ENV CUDA_HOME
    PATH_SUFFIXES include)
find_path(TUTTI_NCCL_INCLUDE nccl.h PATHS /usr/local/cuda ENV NCCL_HOME
    PATH_SUFFIXES include)
mark_as_advanced(
    TUTTI_CUDA_STUB TUTTI_NCCL TUTTI_CUDA_INCLUDE TUTTI_NCCL_INCLUDE)

tutti_unit_test(NAME test_gpu_loading ROOM gpu
    SOURCES test_gpu_driver.c test_gpu_nccl.c test_gpu_find.c)
add_dependencies(test_gpu_loading
    fake_cuda fake_cuda_10 fake_cuda_11 fake_nccl fake_nccl_torn fake_nccl_thin)
target_compile_definitions(test_gpu_loading PRIVATE
    FAKES="${CMAKE_LIBRARY_OUTPUT_DIRECTORY}"
    CUDA_STUB="$<$<BOOL:${TUTTI_CUDA_STUB}>:${TUTTI_CUDA_STUB}>"
    REAL_NCCL="$<$<BOOL:${TUTTI_NCCL}>:${TUTTI_NCCL}>")

foreach(name cuda nccl)
    string(TOUPPER ${name} upper)
    add_test(NAME unit.gpu_headers_${name}
        COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/headers ${CMAKE_C_COMPILER}
            ${PROJECT_SOURCE_DIR} ${name} "${TUTTI_${upper}_INCLUDE}" "${TUTTI_CUDA_INCLUDE}")
    set_tests_properties(unit.gpu_headers_${name} PROPERTIES
        LABELS unit TIMEOUT ${TUTTI_TEST_LIMIT} SKIP_RETURN_CODE 77)
endforeach()

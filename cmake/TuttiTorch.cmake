# tutti_torch: libtorch, for what includes <tutti/torch.hpp>, where it is installed and there is no
# sanitizer (libtorch is not built with one). Its own CMake package looks for much more.

find_path(TUTTI_TORCH_INCLUDE torch/csrc/autograd/variable.h)
find_path(TUTTI_TORCH_API_INCLUDE torch/torch.h PATH_SUFFIXES torch/csrc/api/include)
find_library(TUTTI_TORCH_LIBRARY torch)
find_library(TUTTI_TORCH_CPU_LIBRARY torch_cpu)
find_library(TUTTI_C10_LIBRARY c10)
mark_as_advanced(TUTTI_TORCH_INCLUDE TUTTI_TORCH_API_INCLUDE TUTTI_TORCH_LIBRARY
    TUTTI_TORCH_CPU_LIBRARY TUTTI_C10_LIBRARY)
if(TUTTI_TORCH_INCLUDE AND TUTTI_TORCH_API_INCLUDE AND TUTTI_TORCH_LIBRARY AND
        TUTTI_TORCH_CPU_LIBRARY AND TUTTI_C10_LIBRARY AND NOT TUTTI_SANITIZE)
    add_library(tutti_torch INTERFACE)
    target_include_directories(tutti_torch SYSTEM INTERFACE
        ${TUTTI_TORCH_INCLUDE} ${TUTTI_TORCH_API_INCLUDE})
    target_link_libraries(tutti_torch INTERFACE
        ${TUTTI_TORCH_LIBRARY} ${TUTTI_TORCH_CPU_LIBRARY} ${TUTTI_C10_LIBRARY})
endif()

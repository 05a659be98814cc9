# Options of the build, compiler flags, and the packages everything needs.

set(TUTTI_MPI "auto" CACHE STRING
    "MPI implementation: auto, openmpi, mpich, or off (only tutti_init_local)")
set_property(CACHE TUTTI_MPI PROPERTY STRINGS auto openmpi mpich off)
option(TUTTI_TESTS "build the tests (needs cmocka)" ON)
option(TUTTI_STATIC "also build and install libtutti.a" OFF)
option(TUTTI_LTO "optimise the shared library as a whole, with GCC and a release build" ON)
option(TUTTI_WERROR "treat warnings as errors" OFF)
set(TUTTI_SANITIZE "" CACHE STRING "sanitizers: address,undefined or thread")
option(TUTTI_COVERAGE "instrument for coverage" OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
# In /usr the loader looks by itself.
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    file(RELATIVE_PATH lib_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set(CMAKE_INSTALL_RPATH $ORIGIN/${lib_from_bin})
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Flags of every target of the project, as an interface library.
add_library(tutti_flags INTERFACE)
target_compile_definitions(tutti_flags INTERFACE _GNU_SOURCE)
target_compile_options(tutti_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wcast-qual -Wpointer-arith
    -Wwrite-strings -Wformat=2 -Wswitch-enum
    -fno-semantic-interposition
    $<$<COMPILE_LANGUAGE:C>:-Wconversion>
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    $<$<COMPILE_LANGUAGE:C>:-Wold-style-definition>
    $<$<BOOL:${TUTTI_WERROR}>:-Werror>)

# Instrumentation must reach every object and every link, also those of targets that do
# not use tutti_flags, so it is set for the whole tree.
if(TUTTI_SANITIZE)
    add_compile_options(
        -fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${TUTTI_SANITIZE})
else()
    # Level 3 where the compiler has it; distributions that preset a level of their own
    # would otherwise warn about the second definition. It needs optimisation.
    set(fortify 3)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 12)
        set(fortify 2)
    endif()
    target_compile_options(tutti_flags INTERFACE
        -fstack-protector-strong -fstack-clash-protection
        $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
        $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=${fortify}>)
    target_link_options(tutti_flags INTERFACE -Wl,-z,relro,-z,now)
endif()
if(TUTTI_COVERAGE)
    add_compile_options(--coverage)
    add_link_options(--coverage)
endif()

# Many small functions in many files: as a whole the library takes a sixth less time for a
# thousand small tensors. Only it is linked so; tests link the rooms as they were compiled.
# A static library must suit other compilers, so its objects are plain.
set(TUTTI_LTO_OPTIONS "")
if(TUTTI_LTO AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_BUILD_TYPE MATCHES "^Rel"
        AND NOT TUTTI_STATIC AND NOT TUTTI_SANITIZE AND NOT TUTTI_COVERAGE)
    set(TUTTI_LTO_OPTIONS -flto=auto -ffat-lto-objects)
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc>=2.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.7)
include(TuttiMpi)
include(TuttiUcx)

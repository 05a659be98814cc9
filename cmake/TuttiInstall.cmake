# Install rules, tutti.pc and the CMake package. All paths inside the installed tree are
# relative, so that it can be moved.

include(CMakePackageConfigHelpers)
set(TUTTI_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
set(TUTTI_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(TARGETS tutti tutti_trainer EXPORT tuttiTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT lib NAMELINK_COMPONENT dev
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
add_custom_target(plugins)
foreach(family ${TUTTI_MPI_PLUGINS}) # each a package, for what it depends on
    add_dependencies(plugins tutti_${family})
    install(TARGETS tutti_${family} EXPORT tuttiTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${family} NAMELINK_COMPONENT dev)
endforeach()
set(TUTTI_PLUGINS ${TUTTI_MPI_PLUGINS})
if(TUTTI_HAVE_UCX) # nobody links it
    list(APPEND TUTTI_PLUGINS ucx)
    add_dependencies(plugins tutti_ucx)
    install(TARGETS tutti_ucx
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ucx NAMELINK_SKIP)
endif()
# What of a build is installed, for one that needs no more: the preset `package`.
add_custom_target(installed)
add_dependencies(installed tutti tutti_trainer plugins)
foreach(tool tuttirun tutti-autopsy tutti-trace tutti-bench tutti-info)
    if(TARGET ${tool})
        tutti_component_of(${tool} component)
        install(TARGETS ${tool} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${component})
        add_dependencies(installed ${tool})
    endif()
endforeach()
# horovodrun is tuttirun --horovod, and the folder of the package that it serves.
install(CODE "file(CREATE_LINK tuttirun
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/horovodrun\" SYMBOLIC)" COMPONENT bin)
install(DIRECTORY python/horovod DESTINATION share/tutti COMPONENT bin
    PATTERN __pycache__ EXCLUDE)
foreach(family ${TUTTI_MPI_PLUGINS})
    install(TARGETS tutti_preload_${family}
        LIBRARY DESTINATION ${TUTTI_PRELOAD_DIR}/${family} COMPONENT ${family})
    add_dependencies(installed tutti_preload_${family})
endforeach()
install(DIRECTORY python/tutti DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL
    PATTERN __pycache__ EXCLUDE PATTERN compiled EXCLUDE)
foreach(made pages manuals) # where the build can make them
    if(TARGET ${made})
        add_dependencies(installed ${made})
    endif()
endforeach()
if(TARGET tutti_static)
    install(TARGETS tutti_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
endif()

install(FILES include/tutti/tutti.h include/tutti/tutti.hpp include/tutti/trainer.h
    include/tutti/trainer.hpp include/tutti/torch.hpp
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti COMPONENT dev)
install(DIRECTORY include/tutti/trainer DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti COMPONENT dev)
if(TUTTI_HAVE_MPI)
    install(FILES include/tutti/mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tutti COMPONENT dev)
endif()

# tutti.pc. Outside /usr the loader may not look for libraries, so programs are told where this one
# was when they were linked. What is private is for libtutti.a alone: without it nobody need have
# the .pc files of hwloc and MPI. An MPI with no pkg-config module is named by its files.
set(pc_dir ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH TUTTI_PC_PREFIX ${pc_dir} ${CMAKE_INSTALL_PREFIX}/.)
file(RELATIVE_PATH TUTTI_PC_INCLUDEDIR ${pc_dir} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
string(REGEX REPLACE "/+$" "" TUTTI_PC_PREFIX "${TUTTI_PC_PREFIX}")
set(TUTTI_PC_RPATH "")
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(TUTTI_PC_RPATH " -Wl,-rpath,\${libdir}")
endif()
set(TUTTI_PC_REQUIRES "hwloc >= 2.1 ${TUTTI_MPI_MODULE}") # libtutti.a has this MPI's plug-in
string(STRIP ${TUTTI_PC_REQUIRES} TUTTI_PC_REQUIRES)
set(TUTTI_PC_LIBS "${CMAKE_THREAD_LIBS_INIT} -lm")
foreach(lib ${CMAKE_DL_LIBS})
    string(APPEND TUTTI_PC_LIBS " -l${lib}")
endforeach()
if(TUTTI_HAVE_MPI)
    string(PREPEND TUTTI_PC_LIBS "-Wl,-u,libtutti_mpi_plugin ")
endif()
if(TUTTI_HAVE_MPI AND NOT TUTTI_MPI_MODULE)
    list(JOIN MPI_C_LIBRARIES " " mpi_libs)
    string(APPEND TUTTI_PC_LIBS " ${mpi_libs}")
endif()
string(STRIP ${TUTTI_PC_LIBS} TUTTI_PC_LIBS)
if(NOT TUTTI_STATIC)
    set(TUTTI_PC_REQUIRES "")
    set(TUTTI_PC_LIBS "")
endif()
configure_file(cmake/tutti.pc.in ${CMAKE_BINARY_DIR}/tutti.pc @ONLY)
configure_file(cmake/tutti-trainer.pc.in ${CMAKE_BINARY_DIR}/tutti-trainer.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tutti.pc ${CMAKE_BINARY_DIR}/tutti-trainer.pc
    DESTINATION ${TUTTI_PC_DIR} COMPONENT dev)
# For <tutti/mpi.h>: tutti-openmpi, tutti-mpich, and tutti-mpi for the one that the build chose.
function(tutti_mpi_pc module TUTTI_PC_FAMILY)
    configure_file(cmake/tutti-mpi.pc.in ${CMAKE_BINARY_DIR}/${module}.pc @ONLY)
    install(FILES ${CMAKE_BINARY_DIR}/${module}.pc DESTINATION ${TUTTI_PC_DIR} COMPONENT dev)
endfunction()
foreach(family ${TUTTI_MPI_PLUGINS})
    tutti_mpi_pc(tutti-${family} ${family})
endforeach()
if(TUTTI_HAVE_MPI)
    tutti_mpi_pc(tutti-mpi ${TUTTI_MPI_NAME})
endif()

# find_package(tutti). Before 1.0 a minor version may break its callers.
configure_package_config_file(cmake/tuttiConfig.cmake.in
    ${CMAKE_BINARY_DIR}/tuttiConfig.cmake INSTALL_DESTINATION ${TUTTI_CMAKE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tuttiConfigVersion.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(EXPORT tuttiTargets NAMESPACE tutti:: DESTINATION ${TUTTI_CMAKE_DIR} COMPONENT dev)
install(FILES ${CMAKE_BINARY_DIR}/tuttiConfig.cmake
    ${CMAKE_BINARY_DIR}/tuttiConfigVersion.cmake DESTINATION ${TUTTI_CMAKE_DIR} COMPONENT dev)

# Pages and the sources of the examples, side by side as here, so that the links between them work.
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
    PATTERN CMakeLists.txt EXCLUDE)

# Packages for Debian and Ubuntu, by CPack from a build with the prefix /usr: script/package. The files
# of each package are an install component; what they depend on is found by dpkg-shlibdeps.

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL lib ${TUTTI_PLUGINS} dev bin doc python) # the examples' programs stay in the tree
if(TUTTI_HAVE_MPI)
    list(APPEND CPACK_COMPONENTS_ALL bench)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_NAME tutti)
set(CPACK_PACKAGE_CONTACT "tutti developers <tutti@tutti.invalid>")
if(DEFINED ENV{DEBEMAIL})
    set(CPACK_PACKAGE_CONTACT "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE none) # finish.cmake packs again
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

# A release is built for one distribution, and its version says for which.
cmake_host_system_information(RESULT codename QUERY DISTRIB_VERSION_CODENAME)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
if(codename)
    string(APPEND CPACK_DEBIAN_PACKAGE_RELEASE "~${codename}")
endif()
set(exactly "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(library libtutti${TUTTI_SOVERSION})

set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_LIB_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_DESCRIPTION "Ranks submit named tensors in any order; tutti agrees on
what is ready, fuses small tensors and runs the collective in shared memory,
over UCX or MPI, or with NCCL. libtutti-trainer adds reducers, optimizers and
checkpoints.")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

# The plug-ins: of libraries that not everybody has.
set(openmpi_of "Open MPI")
set(openmpi_starter openmpi-bin)
set(mpich_of "MPICH and what descends from it")
set(mpich_starter mpich)
set(abi_of "any MPI that has the standard ABI")
set(linked "${library} ${exactly}") # by programs
foreach(plugin ${TUTTI_PLUGINS})
    string(TOUPPER ${plugin} component)
    set(package libtutti-${plugin}${TUTTI_SOVERSION})
    if(plugin IN_LIST TUTTI_MPI_PLUGINS)
        string(APPEND linked ", ${package} ${exactly}")
    endif()
    set(CPACK_DEBIAN_${component}_PACKAGE_NAME ${package})
    set(CPACK_DEBIAN_${component}_PACKAGE_SECTION libs)
    set(CPACK_DEBIAN_${component}_PACKAGE_DEPENDS "${library} ${exactly}")
    set(CPACK_DEBIAN_${component}_PACKAGE_PROVIDES libtutti-${plugin})
    set(CPACK_DEBIAN_${component}_PACKAGE_RECOMMENDS ${${plugin}_starter})
    set(CPACK_DEBIAN_${component}_DESCRIPTION "The plug-in of tutti for jobs over ${${plugin}_of},
with tutti_init_mpi(); and libtutti_mpi.so, which carries out the collectives of
any program of that MPI.")
    set(CPACK_DEBIAN_${component}_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
endforeach()
set(CPACK_DEBIAN_UCX_DESCRIPTION "The plug-in of tutti for jobs over UCX, which need no MPI.")
if(TUTTI_HAVE_UCX) # so that a job starts where nothing else is
    set(CPACK_DEBIAN_LIB_PACKAGE_RECOMMENDS libtutti-ucx${TUTTI_SOVERSION})
endif()

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtutti-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ${linked})
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "tutti-doc, libtorch-dev, libopenmpi-dev | libmpich-dev")
set(CPACK_DEBIAN_DEV_DESCRIPTION "Headers, pkg-config modules and the CMake package.")

set(CPACK_DEBIAN_BIN_PACKAGE_NAME tutti)
set(CPACK_DEBIAN_BIN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_BIN_PACKAGE_DEPENDS "${library} ${exactly}")
set(CPACK_DEBIAN_BIN_PACKAGE_SUGGESTS "gdb, tutti-doc, openmpi-bin | mpich")
set(CPACK_DEBIAN_BIN_DESCRIPTION "tuttirun starts, binds and watches the ranks of a job, here
and on other hosts; tutti-autopsy says why a job failed or hung; tutti-trace
reads timelines; tutti-info says what there is.")

# It measures beside an MPI, which it is linked to.
set(CPACK_DEBIAN_BENCH_PACKAGE_NAME tutti-bench)
set(CPACK_DEBIAN_BENCH_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_BENCH_PACKAGE_DEPENDS "${library} ${exactly}, libtutti-${TUTTI_MPI_NAME}${TUTTI_SOVERSION} ${exactly}, tutti, ${${TUTTI_MPI_NAME}_starter}")
set(CPACK_DEBIAN_BENCH_DESCRIPTION "tutti-bench measures the collectives of tutti and of ${${TUTTI_MPI_NAME}_of}.")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-tutti)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), ${library} ${exactly}")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS "python3-numpy, tutti")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-torch, libtutti-dev")
set(CPACK_DEBIAN_PYTHON_DESCRIPTION "The packages tutti, tutti.torch, tutti.tensorflow and tutti.keras.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/packaging/debian/postinst ${PROJECT_SOURCE_DIR}/packaging/debian/prerm)

set(CPACK_DEBIAN_DOC_PACKAGE_NAME tutti-doc)
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOC_DESCRIPTION "The documentation, and the sources of the examples.")

if(TUTTI_STATIC) # then tutti.pc requires that of hwloc, which names libudev
    string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", libhwloc-dev, libudev-dev")
endif()

set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/packaging/debian/symbols ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian/add.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian/finish.cmake)
include(CPack)

# Packages for Debian and Ubuntu, by CPack from a build with the prefix /usr: script/package. The files
# of each package are an install component; what they depend on is found by dpkg-shlibdeps.

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL lib dev bin doc ${TUTTI_MPI_PLUGINS}) # the examples' programs stay in the tree
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

# A release is built for one distribution and one MPI, and its version says for which.
cmake_host_system_information(RESULT codename QUERY DISTRIB_VERSION_CODENAME)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
if(codename)
    string(APPEND CPACK_DEBIAN_PACKAGE_RELEASE "~${codename}")
endif()
if(TUTTI_MPI_NAME STREQUAL "mpich")
    string(APPEND CPACK_DEBIAN_PACKAGE_RELEASE "+mpich")
endif()
set(exactly "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(library libtutti${TUTTI_SOVERSION})

set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_LIB_PACKAGE_NAME ${library})
set(CPACK_DEBIAN_LIB_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIB_DESCRIPTION "Ranks submit named tensors in any order; tutti agrees on
what is ready, fuses small tensors and runs the collective in shared memory,
over MPI or with NCCL. libtutti-trainer adds reducers, optimizers and
checkpoints.")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(plugins "")
foreach(family ${TUTTI_MPI_PLUGINS})
    string(TOUPPER ${family} component)
    set(package libtutti-${family}${TUTTI_SOVERSION})
    string(APPEND plugins ", ${package} ${exactly}")
    set(CPACK_DEBIAN_${component}_PACKAGE_NAME ${package})
    set(CPACK_DEBIAN_${component}_PACKAGE_SECTION libs)
    set(CPACK_DEBIAN_${component}_PACKAGE_DEPENDS "${library} ${exactly}")
    set(CPACK_DEBIAN_${component}_PACKAGE_PROVIDES libtutti-${family})
    set(CPACK_DEBIAN_${component}_DESCRIPTION "The plug-in with which ranks that this MPI has started find each other,
and tutti_init_mpi().")
    set(CPACK_DEBIAN_${component}_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
endforeach()

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtutti-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${library} ${exactly}${plugins}")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "tutti-doc, libtorch-dev")
set(CPACK_DEBIAN_DEV_DESCRIPTION "Headers, pkg-config modules and the CMake package.")

set(CPACK_DEBIAN_BIN_PACKAGE_NAME tutti-bin)
set(CPACK_DEBIAN_BIN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_BIN_PACKAGE_DEPENDS "${library} ${exactly}")
set(CPACK_DEBIAN_BIN_PACKAGE_SUGGESTS "gdb, tutti-doc")
set(CPACK_DEBIAN_BIN_DESCRIPTION "tuttirun starts, binds and watches the ranks of a job, here
and on other hosts; tutti-autopsy says why a job failed or hung; tutti-trace
reads timelines; tutti-bench measures; tutti-info says what there is.
libtutti_mpi.so carries out the collectives of any MPI program.")

set(CPACK_DEBIAN_DOC_PACKAGE_NAME tutti-doc)
set(CPACK_DEBIAN_DOC_PACKAGE_SECTION doc)
set(CPACK_DEBIAN_DOC_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DOC_DESCRIPTION "The documentation, and the sources of the examples.")

# The program that starts ranks is that of the MPI.
if(TUTTI_MPI_NAME STREQUAL "openmpi")
    string(APPEND CPACK_DEBIAN_BIN_PACKAGE_DEPENDS ", libtutti-openmpi${TUTTI_SOVERSION} ${exactly}, openmpi-bin")
    string(APPEND CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS ", libopenmpi-dev")
elseif(TUTTI_MPI_NAME STREQUAL "mpich")
    string(APPEND CPACK_DEBIAN_BIN_PACKAGE_DEPENDS ", libtutti-mpich${TUTTI_SOVERSION} ${exactly}, mpich")
    string(APPEND CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS ", libmpich-dev")
endif()
if(TUTTI_STATIC) # then tutti.pc requires that of hwloc, which names libudev
    string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", libhwloc-dev, libudev-dev")
endif()

set(CPACK_DEBIAN_LIB_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/packaging/debian/symbols ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian/add.cmake)
set(CPACK_POST_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/debian/finish.cmake)
include(CPack)

# Finds UCX and sets TUTTI_HAVE_UCX, 0 or 1; then there is the target PkgConfig::UCX.

option(TUTTI_UCX "build the transport over UCX where libucp is found" ON)
set(TUTTI_HAVE_UCX 0)
if(TUTTI_UCX)
    pkg_check_modules(UCX IMPORTED_TARGET ucx>=1.12 ucx-ucs>=1.12)
    if(UCX_FOUND)
        set(TUTTI_HAVE_UCX 1)
    endif()
endif()

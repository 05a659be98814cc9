# Called by CPack when the packages are made, for what CPack 3.25 cannot: no scripts that call ldconfig,
# as there is a trigger for it, and the field Multi-Arch.

foreach(package ${CPACK_PACKAGE_FILES})
    set(tree ${CPACK_TOPLEVEL_DIRECTORY}/tree)
    file(REMOVE_RECURSE ${tree})
    execute_process(COMMAND dpkg-deb --raw-extract ${package} ${tree} COMMAND_ERROR_IS_FATAL ANY)
    set(kind foreign)
    if(package MATCHES "/libtutti")
        file(REMOVE ${tree}/DEBIAN/postinst ${tree}/DEBIAN/postrm)
        set(kind same)
    endif()
    file(READ ${tree}/DEBIAN/control control)
    string(STRIP "${control}" control)
    file(WRITE ${tree}/DEBIAN/control "${control}\nMulti-Arch: ${kind}\n")
    execute_process(COMMAND dpkg-deb -Zxz --root-owner-group --build ${tree} ${package}
        OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endforeach()

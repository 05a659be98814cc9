# Called by CPack when the files of each package lie in a directory of their own: adds the copyright and
# the changelog that Debian asks for, and compresses manual pages.

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, if set
set(changelog ${CPACK_TOPLEVEL_DIRECTORY}/changelog)
file(WRITE ${changelog} "tutti (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}: CHANGELOG.md, in the package tutti-doc, lists what changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
foreach(component ${CPACK_COMPONENTS_ALL})
    string(TOUPPER ${component} name)
    set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share)
    set(doc ${root}/doc/${CPACK_DEBIAN_${name}_PACKAGE_NAME})
    file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION ${doc})
    file(COPY_FILE ${changelog} ${doc}/changelog.Debian)
    file(GLOB_RECURSE pages ${root}/man/*)
    execute_process(COMMAND gzip -9n ${doc}/changelog.Debian ${pages} COMMAND_ERROR_IS_FATAL ANY)
endforeach()

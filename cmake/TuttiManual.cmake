# The manual pages: of functions from docs/reference/functions, of programs from what they print
# for --help (that of tuttirun is made in tools/pages). Pages of functions are installed with
# the component `doc`. Without awk, or when cross-compiling without an emulator, there are none.

find_program(TUTTI_AWK NAMES awk mawk gawk)
mark_as_advanced(TUTTI_AWK)
if(NOT TUTTI_AWK)
    return()
endif()
set(man_dir ${CMAKE_BINARY_DIR}/share/man)
set(tool_dir ${CMAKE_CURRENT_SOURCE_DIR}/cmake)
set(pages_dir ${CMAKE_CURRENT_SOURCE_DIR}/docs/reference/functions)

file(GLOB pages CONFIGURE_DEPENDS ${pages_dir}/*.md)
add_custom_command(OUTPUT ${man_dir}/man3/tutti.3
    COMMAND ${tool_dir}/function_pages ${TUTTI_AWK} ${PROJECT_VERSION} ${pages_dir} ${man_dir}/man3
    DEPENDS ${pages} ${tool_dir}/function_pages ${tool_dir}/function_page.awk VERBATIM)
set(manuals ${man_dir}/man3/tutti.3)
install(DIRECTORY ${man_dir}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT doc)

# tutti_program_page(NAME SUMMARY)
function(tutti_program_page name summary)
    if(NOT TARGET ${name} OR (CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR))
        return()
    endif()
    set(page ${man_dir}/man1/${name}.1)
    add_custom_command(OUTPUT ${page}
        COMMAND ${name} --help > ${page}.help
        COMMAND ${TUTTI_AWK} -v name=${name} -v summary=${summary} -v version=${PROJECT_VERSION}
            -f ${tool_dir}/program_page.awk ${page}.help > ${page}
        COMMAND ${CMAKE_COMMAND} -E rm ${page}.help
        DEPENDS ${name} ${tool_dir}/program_page.awk VERBATIM)
    tutti_component_of(${name} component)
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
    set(manuals ${manuals} ${page} PARENT_SCOPE)
endfunction()
file(MAKE_DIRECTORY ${man_dir}/man1)
tutti_program_page(tutti-info "version, features, MPI, GPUs and configuration of tutti")
tutti_program_page(tutti-bench "measure collective communication over the ranks of a job")
tutti_program_page(tutti-autopsy "diagnose hangs and failures from the recordings of a job's ranks")
tutti_program_page(tutti-trace "merge and analyse the timelines of a job's ranks")

add_custom_target(manuals ALL DEPENDS ${manuals})

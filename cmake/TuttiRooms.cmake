# A room is a static library that links only the rooms below it, so that an upward call
# does not link. The library is made of the objects of all its rooms.

# Other libraries that a room needs, kept for the link of the library.
define_property(TARGET PROPERTY TUTTI_ROOM_LIBS BRIEF_DOCS "libraries a room needs")

# A build for a second MPI takes what does not see MPI from a first build.
set(TUTTI_ROOMS_FROM "" CACHE PATH "another build, with the same options but for the MPI")

# tutti_take(TARGET SHARED|STATIC output): the target is the file of that name in the other build.
function(tutti_take target kind output)
    set(file ${TUTTI_ROOMS_FROM}/lib/lib${output}${CMAKE_${kind}_LIBRARY_SUFFIX})
    add_library(${target} ${kind} IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${file})
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/include
        ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR})
    set_property(GLOBAL APPEND PROPERTY TUTTI_TAKEN ${target})
    set_property(GLOBAL APPEND PROPERTY TUTTI_TAKEN_FILES ${file})
endfunction()

# The other build brings what is taken up to date first. Called when all is known.
function(tutti_refresh_taken)
    get_property(targets GLOBAL PROPERTY TUTTI_TAKEN)
    get_property(files GLOBAL PROPERTY TUTTI_TAKEN_FILES)
    if(targets)
        add_custom_target(taken BYPRODUCTS ${files}
            COMMAND ${CMAKE_COMMAND} --build ${TUTTI_ROOMS_FROM} --target ${targets} VERBATIM)
        foreach(target ${targets} tutti)
            add_dependencies(${target} taken)
        endforeach()
    endif()
endfunction()

# tutti_room(NAME name SOURCES ... [BELOW rooms ...] [LIBS libraries ...] [OPTIONS flags ...]
#     [SEES_MPI])
function(tutti_room)
    cmake_parse_arguments(ROOM "SEES_MPI" "NAME" "SOURCES;BELOW;LIBS;OPTIONS" ${ARGN})
    set(target tutti_${ROOM_NAME})
    list(TRANSFORM ROOM_BELOW PREPEND tutti_)
    set(interface tutti_flags ${ROOM_BELOW} Threads::Threads)
    if(TUTTI_ROOMS_FROM AND NOT ROOM_SEES_MPI)
        tutti_take(${target} STATIC ${target})
        target_link_libraries(${target} INTERFACE ${interface} ${ROOM_LIBS})
    else()
        add_library(${target} STATIC ${ROOM_SOURCES})
        target_include_directories(${target} PUBLIC
            ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR})
        target_link_libraries(${target} PUBLIC ${interface} PRIVATE ${ROOM_LIBS})
        target_compile_options(${target} PRIVATE ${ROOM_OPTIONS})
    endif()
    set_property(TARGET ${target} PROPERTY TUTTI_ROOM_LIBS "${ROOM_LIBS}")
endfunction()

# tutti_library(ROOMS ...): libtutti.so, and libtutti.a when TUTTI_STATIC, of these rooms.
function(tutti_library)
    cmake_parse_arguments(LIBRARY "" "" "ROOMS" ${ARGN})
    set(map ${PROJECT_SOURCE_DIR}/lib/tutti.map)
    foreach(room ${LIBRARY_ROOMS})
        get_target_property(taken tutti_${room} IMPORTED)
        if(taken)
            get_target_property(archive tutti_${room} IMPORTED_LOCATION)
            list(APPEND archives ${archive})
        else()
            list(APPEND objects $<TARGET_OBJECTS:tutti_${room}>)
            target_compile_options(tutti_${room} PRIVATE ${TUTTI_LTO_OPTIONS})
        endif()
        if(TUTTI_LTO_OPTIONS)
            target_link_options(tutti_${room} INTERFACE -fno-lto)
        endif()
        get_target_property(room_libs tutti_${room} TUTTI_ROOM_LIBS)
        list(APPEND libs ${room_libs})
    endforeach()
    # What plug-ins use is exported; calls from within stay direct.
    set(link_options -Wl,--version-script=${map} -Wl,-Bsymbolic-functions ${TUTTI_LTO_OPTIONS})
    if(archives)
        list(PREPEND libs -Wl,--whole-archive ${archives} -Wl,--no-whole-archive)
        list(APPEND link_options -fno-lto) # quicker; the first build has it
        set(objects ${CMAKE_CURRENT_BINARY_DIR}/taken.c) # a library needs a source
        file(CONFIGURE OUTPUT ${objects} CONTENT "typedef int taken;\n")
    endif()

    add_library(tutti SHARED ${objects})
    add_library(tutti::tutti ALIAS tutti)
    set_target_properties(tutti PROPERTIES
        LINKER_LANGUAGE C
        VERSION ${PROJECT_VERSION}
        SOVERSION ${TUTTI_SOVERSION}
        LINK_DEPENDS "${map};${archives}")
    target_include_directories(tutti PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(tutti PRIVATE tutti_flags ${libs} Threads::Threads m)
    target_link_options(tutti PRIVATE ${link_options})
    if(NOT TUTTI_SANITIZE)
        # A sanitizer's run-time library is found only in the program.
        target_link_options(tutti PRIVATE -Wl,-z,defs)
    endif()

    if(TUTTI_STATIC)
        if(TUTTI_HAVE_MPI) # nothing is loaded
            foreach(room fabric_mpi op_mpi_vendor mpi_plugin)
                list(APPEND objects $<TARGET_OBJECTS:tutti_${room}>)
            endforeach()
        endif()
        add_library(tutti_static STATIC ${objects})
        set_target_properties(tutti_static PROPERTIES
            LINKER_LANGUAGE C OUTPUT_NAME tutti)
    endif()
endfunction()

# tutti_unit_test(NAME name ROOM room [SOURCES ...] [ONLY pattern]): one room and those below, alone; ONLY the
# tests whose names match.
function(tutti_unit_test)
    cmake_parse_arguments(UNIT "" "NAME;ROOM;ONLY" "SOURCES;LIBS" ${ARGN})
    if(NOT UNIT_SOURCES)
        set(UNIT_SOURCES ${UNIT_NAME}.c)
    endif()
    add_executable(${UNIT_NAME} ${UNIT_SOURCES})
    target_link_libraries(${UNIT_NAME} PRIVATE tutti_${UNIT_ROOM} tutti_unit_main m
        ${UNIT_LIBS})
    add_test(NAME unit.${UNIT_NAME} COMMAND ${UNIT_NAME} ${UNIT_ONLY})
    set_tests_properties(unit.${UNIT_NAME} PROPERTIES LABELS unit TIMEOUT ${TUTTI_TEST_LIMIT}
        FAIL_REGULAR_EXPRESSION "[^0-9]0 test\\(s\\) run")
endfunction()

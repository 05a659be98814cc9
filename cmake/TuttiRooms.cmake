# A room is a static library that links only the rooms below it, so that an upward call
# does not link. The library is made of the objects of all its rooms.

# Other libraries that a room needs, kept for the link of the library.
define_property(TARGET PROPERTY TUTTI_ROOM_LIBS BRIEF_DOCS "libraries a room needs")

# tutti_room(NAME name SOURCES ... [BELOW rooms ...] [LIBS libraries ...])
function(tutti_room)
    cmake_parse_arguments(ROOM "" "NAME" "SOURCES;BELOW;LIBS" ${ARGN})
    set(target tutti_${ROOM_NAME})
    add_library(${target} STATIC ${ROOM_SOURCES})
    target_include_directories(${target} PUBLIC
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lib ${PROJECT_SOURCE_DIR})
    list(TRANSFORM ROOM_BELOW PREPEND tutti_)
    target_link_libraries(${target} PUBLIC tutti_flags ${ROOM_BELOW} Threads::Threads
        PRIVATE ${ROOM_LIBS})
    target_compile_options(${target} PRIVATE ${TUTTI_LTO_OPTIONS})
    if(TUTTI_LTO_OPTIONS)
        target_link_options(${target} INTERFACE -fno-lto)
    endif()
    set_property(TARGET ${target} PROPERTY TUTTI_ROOM_LIBS "${ROOM_LIBS}")
endfunction()

# tutti_library(ROOMS ...): libtutti.so, and libtutti.a when TUTTI_STATIC, of these rooms.
function(tutti_library)
    cmake_parse_arguments(LIBRARY "" "" "ROOMS" ${ARGN})
    set(map ${PROJECT_SOURCE_DIR}/lib/tutti.map)
    foreach(room ${LIBRARY_ROOMS})
        list(APPEND objects $<TARGET_OBJECTS:tutti_${room}>)
        get_target_property(room_libs tutti_${room} TUTTI_ROOM_LIBS)
        list(APPEND libs ${room_libs})
    endforeach()

    add_library(tutti SHARED ${objects})
    add_library(tutti::tutti ALIAS tutti)
    set_target_properties(tutti PROPERTIES
        LINKER_LANGUAGE C
        VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR}
        LINK_DEPENDS ${map})
    target_include_directories(tutti PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_link_libraries(tutti PRIVATE tutti_flags ${libs} Threads::Threads m)
    target_link_options(tutti PRIVATE -Wl,--version-script=${map} ${TUTTI_LTO_OPTIONS})
    if(NOT TUTTI_SANITIZE)
        # A sanitizer's run-time library is found only in the program.
        target_link_options(tutti PRIVATE -Wl,-z,defs)
    endif()

    if(TUTTI_STATIC)
        add_library(tutti_static STATIC ${objects})
        set_target_properties(tutti_static PROPERTIES
            LINKER_LANGUAGE C OUTPUT_NAME tutti)
    endif()
endfunction()

# tutti_unit_test(NAME name ROOM room [SOURCES ...]): one room and those below, alone.
function(tutti_unit_test)
    cmake_parse_arguments(UNIT "" "NAME;ROOM" "SOURCES;LIBS" ${ARGN})
    if(NOT UNIT_SOURCES)
        set(UNIT_SOURCES ${UNIT_NAME}.c)
    endif()
    add_executable(${UNIT_NAME} ${UNIT_SOURCES})
    target_link_libraries(${UNIT_NAME} PRIVATE tutti_${UNIT_ROOM} PkgConfig::CMOCKA m
        ${UNIT_LIBS})
    add_test(NAME unit.${UNIT_NAME} COMMAND ${UNIT_NAME})
    set(timeout 120)
    if(TUTTI_SANITIZE)
        set(timeout 600)
    endif()
    set_tests_properties(unit.${UNIT_NAME} PROPERTIES LABELS unit TIMEOUT ${timeout})
endfunction()

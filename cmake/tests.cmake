# SPDX-License-Identifier: MIT
# verbena_test_program(NAME SOURCES ... [LINK ...] [LABELS ...] [PREFIX text]): one GoogleTest program. Every test
#   of it is a test of CTest, named PREFIX/Suite.test, with the labels given (default: unit). The label `tsan` puts
#   the program into the subset that every run executes under ThreadSanitizer.
# verbena_unit_tests(MODULE [LABELS ...] [targets to link]): the program of tests/unit/MODULE/**/*_test.cpp.
# verbena_precompiled_headers(TARGET KIND): gives a test program the precompiled headers of its kind: library or gtest.
# verbena_compile_fail_tests(MODULE): see compile_fail.cmake.
include(GoogleTest)
include(compile_fail)

# All programs with the label tsan; `ninja tsan_tests` builds just these.
add_custom_target(tsan_tests)

# Warnings of tests. g++ 12 that optimises takes pointers that an assertion has just looked at for null, and sees a
# vector of bytes freed at an offset (libstdc++'s, inlined); the library and the device are compiled with both warnings.
add_library(verbena_test_flags INTERFACE)
if(VERBENA_WARNINGS)
  target_compile_options(verbena_test_flags INTERFACE
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>,$<NOT:$<CONFIG:Debug>>>:-Wno-null-dereference;-Wno-free-nonheap-object>)
endif()

# Headers are half the compilation of a test: GoogleTest's, and for tests of the library the library's. They are
# precompiled once for all programs. Compiler caches cannot see through it.
function(verbena_precompiled_headers target kind)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  set(owner verbena_precompiled_${kind})
  if(NOT TARGET ${owner})
    add_library(${owner} OBJECT "${PROJECT_SOURCE_DIR}/tests/precompiled.cpp")
    target_link_libraries(${owner} PRIVATE verbena_flags verbena_test_flags GTest::gmock GTest::gtest)
    set(headers <gmock/gmock.h> <gtest/gtest.h>)
    if(kind STREQUAL "library")
      target_link_libraries(${owner} PRIVATE verbena)
      list(APPEND headers "${PROJECT_SOURCE_DIR}/include/verbena/verbena.hpp")
    endif()
    target_precompile_headers(${owner} PRIVATE ${headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

function(verbena_test_program name)
  cmake_parse_arguments(arg "" "PREFIX" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_PREFIX)
    set(arg_PREFIX ${name})
  endif()
  add_executable(${name} ${arg_SOURCES})
  if("verbena" IN_LIST arg_LINK)
    verbena_precompiled_headers(${name} library)
  else()
    verbena_precompiled_headers(${name} gtest)
  endif()
  target_link_libraries(${name} PRIVATE verbena_flags verbena_test_flags ${arg_LINK} GTest::gmock GTest::gtest_main)
  verbena_unity(${name})
  if("tsan" IN_LIST arg_LABELS)
    add_dependencies(tsan_tests ${name})
  endif()
  # gtest_discover_tests takes no lists as property values; ctest -L matches parts of a label.
  list(JOIN arg_LABELS "," labels)
  gtest_discover_tests(${name} TEST_PREFIX "${arg_PREFIX}/" DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS "${labels}" TIMEOUT 120)
endfunction()

function(verbena_unit_tests module)
  cmake_parse_arguments(arg "" "" "LABELS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/unit/${module}/*_test.cpp")
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" target "${module}_test")
  verbena_test_program(${target} PREFIX "${module}" SOURCES ${sources}
    LINK ${arg_UNPARSED_ARGUMENTS} LABELS unit ${arg_LABELS})
endfunction()

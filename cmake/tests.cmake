# SPDX-License-Identifier: MIT
# verbena_test_program(NAME SOURCES ... [LINK ...] [LABELS ...] [PREFIX text]): adds a GoogleTest program. Each of its
#   tests is a CTest test named PREFIX/Suite.test with the labels (default: unit). Programs with the label `tsan` run
#   under ThreadSanitizer in every run of ./dev test.
# verbena_unit_tests(MODULE [LABELS ...] [targets to link]): adds the program of tests/unit/MODULE/**/*_test.cpp.
# verbena_precompiled_headers(TARGET KIND): gives a test program precompiled headers; KIND is library or gtest.
# verbena_compile_fail_tests(MODULE), verbena_compile_fail_prepare(): see compile_fail.cmake.
include(GoogleTest)
include(compile_fail)

# Builds all programs with the label tsan and no others.
add_custom_target(tsan_tests)

# Warnings that are disabled in tests. With optimization, g++ 12 reports null dereferences of pointers that an assertion
# has checked, frees at an offset inside inlined std::vector code, and copies beyond the bounds in `"text" +
# std::string()` (GCC bugs 105329 and 105651, fixed in 13). Which tests are affected depends on what is compiled
# together. The library and the device keep these warnings.
add_library(verbena_test_flags INTERFACE)
if(VERBENA_WARNINGS)
  target_compile_options(verbena_test_flags INTERFACE
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>,$<NOT:$<CONFIG:Debug>>>:-Wno-null-dereference;-Wno-free-nonheap-object;-Wno-array-bounds;-Wno-stringop-overflow>)
endif()

# Precompiles GoogleTest's headers and the library's headers once for all test programs, because they take half of the
# compilation time of a test. Not used with a compiler launcher: compiler caches do not support precompiled headers.
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
  # gtest_discover_tests does not support lists as property values; ctest -L matches parts of a label.
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

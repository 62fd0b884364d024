# SPDX-License-Identifier: MIT
# verbena_module(NAME): sources of src/NAME, headers of include/verbena/NAME, as one object library.
# verbena_library(NAME MODULES ...): the static archive of those modules, with its header file set.
# verbena_unit_tests(MODULE): tests/unit/MODULE/*_test.cpp as one GoogleTest program.

# The flags every target of ours is compiled with; never part of a public interface.
add_library(verbena_flags INTERFACE)
target_compile_features(verbena_flags INTERFACE cxx_std_20)
target_include_directories(verbena_flags INTERFACE "${PROJECT_SOURCE_DIR}")
if(VERBENA_WARNINGS)
  target_compile_options(verbena_flags INTERFACE
    -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align
    -Woverloaded-virtual -Wnull-dereference -Wno-missing-field-initializers)
endif()
if(VERBENA_SANITIZE)
  target_compile_options(verbena_flags INTERFACE -fsanitize=${VERBENA_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(verbena_flags INTERFACE -fsanitize=${VERBENA_SANITIZE})
endif()

# What users' translation units must agree on with the library.
add_library(verbena_interface INTERFACE)
target_compile_features(verbena_interface INTERFACE cxx_std_20)
target_include_directories(verbena_interface INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
if(VERBENA_NO_EXCEPTIONS)
  target_compile_definitions(verbena_interface INTERFACE VERBENA_NO_EXCEPTIONS=1)
endif()
if(VERBENA_CHECKED)
  target_compile_definitions(verbena_interface INTERFACE VERBENA_CHECKED=1)
endif()

function(verbena_module name)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  add_library(verbena_${name} OBJECT ${sources})
  target_link_libraries(verbena_${name} PRIVATE verbena_flags verbena_interface verbena_rdma_headers)
  set_target_properties(verbena_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(VERBENA_NO_EXCEPTIONS)
    target_compile_options(verbena_${name} PRIVATE -fno-exceptions)
  endif()
endfunction()

function(verbena_library name)
  cmake_parse_arguments(arg "" "" "MODULES" ${ARGN})
  set(objects "")
  set(headers "${PROJECT_SOURCE_DIR}/include/verbena/verbena.hpp")
  foreach(module IN LISTS arg_MODULES)
    list(APPEND objects $<TARGET_OBJECTS:verbena_${module}>)
    file(GLOB module_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/verbena/${module}/*.hpp")
    list(APPEND headers ${module_headers})
  endforeach()
  add_library(${name} STATIC ${objects})
  add_library(verbena::${name} ALIAS ${name})
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_link_libraries(${name} PUBLIC verbena_interface verbena_rdma_headers PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

function(verbena_unit_tests module)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/unit/${module}/*_test.cpp")
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" target "${module}_test")
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE verbena_flags ${ARGN} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${target} TEST_PREFIX "${module}/" PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
endfunction()

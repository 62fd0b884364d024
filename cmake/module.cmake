# SPDX-License-Identifier: MIT
# verbena_module(NAME): sources of src/NAME as one object library per variant of the library.
# verbena_library(NAME [VARIANT suffix] MODULES ...): the static archive of the modules, with its header file set.

# Compiler flags of all targets of this project; never part of a public interface.
add_library(verbena_flags INTERFACE)
target_compile_features(verbena_flags INTERFACE cxx_std_20)
target_include_directories(verbena_flags INTERFACE "${PROJECT_SOURCE_DIR}")
if(VERBENA_WARNINGS)
  target_compile_options(verbena_flags INTERFACE
    -Wall -Wextra -Wpedantic -Werror -Wshadow -Wcast-align -Wnull-dereference -Wno-missing-field-initializers
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual>
    $<$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>:-Wno-shadow>
    # With optimization, g++ 12 reports false overlaps in `"text" + std::string()` (GCC bug 105651, fixed in 13).
    $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>,$<NOT:$<CONFIG:Debug>>>:-Wno-restrict>)
endif()
if(VERBENA_SANITIZE)
  target_compile_options(verbena_flags INTERFACE -fsanitize=${VERBENA_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(verbena_flags INTERFACE -fsanitize=${VERBENA_SANITIZE})
endif()
if(VERBENA_COVERAGE)
  target_compile_options(verbena_flags INTERFACE --coverage)
  target_link_options(verbena_flags INTERFACE --coverage)
endif()

# verbena_unity(TARGET [BATCH]): with VERBENA_UNITY, compiles up to BATCH sources (12) of the target as one unit. Names
# in one source of a unit may shadow names in another, so -Wshadow is off; other builds compile each source alone with
# that warning. Modules use large batches: most of the time goes into parsing their common headers.
set(VERBENA_MODULE_BATCH 40 CACHE STRING "With VERBENA_UNITY: sources of a module that are compiled as one unit")
mark_as_advanced(VERBENA_MODULE_BATCH)
function(verbena_unity target)
  set(batch 12)
  if(ARGC GREATER 1)
    set(batch ${ARGV1})
  endif()
  if(VERBENA_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()

# verbena_precompiled(TARGET): with VERBENA_UNITY, precompiles the library's headers once for all programs. Otherwise
# each source of a program includes the headers, as in a user's program.
function(verbena_precompiled target)
  if(NOT VERBENA_UNITY OR CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  if(NOT TARGET verbena_precompiled_program)
    add_library(verbena_precompiled_program OBJECT "${PROJECT_SOURCE_DIR}/tests/precompiled.cpp")
    target_link_libraries(verbena_precompiled_program PRIVATE verbena_flags verbena::verbena)
    target_precompile_headers(verbena_precompiled_program PRIVATE
      "${PROJECT_SOURCE_DIR}/include/verbena/verbena.hpp")
  endif()
  target_precompile_headers(${target} REUSE_FROM verbena_precompiled_program)
endfunction()

# Creates the interface target with the settings that must be equal in the library and in users' translation units.
function(verbena_add_interface target)
  add_library(${target} INTERFACE)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_compile_definitions(${target} INTERFACE ${ARGN})
endfunction()

set(verbena_definitions "")
if(VERBENA_CHECKED)
  list(APPEND verbena_definitions VERBENA_CHECKED=1)
endif()
verbena_add_interface(verbena_interface ${verbena_definitions})
set_target_properties(verbena_interface PROPERTIES EXPORT_NAME interface)
if(VERBENA_NO_EXCEPTIONS)
  verbena_add_interface(verbena_interface_no_exceptions ${verbena_definitions} VERBENA_NO_EXCEPTIONS=1)
  set_target_properties(verbena_interface_no_exceptions PROPERTIES EXPORT_NAME interface_no_exceptions)
endif()

function(verbena_module name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${name}/*.cpp")
  if(NOT sources)
    return()  # a header-only module
  endif()
  add_library(verbena_${name} OBJECT ${sources})
  target_link_libraries(verbena_${name} PRIVATE verbena_flags verbena_interface verbena_rdma_headers verbena_fmt)
  set_target_properties(verbena_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  verbena_unity(verbena_${name} ${VERBENA_MODULE_BATCH})
  # The library searches libverbena-soft.so here after the loader's own search path.
  set(soft_library "VERBENA_SOFT_LIBRARY_PATHS=\"${CMAKE_INSTALL_FULL_LIBDIR}/libverbena-soft.so.0\"")
  target_compile_definitions(verbena_${name} PRIVATE "${soft_library}")
  if(VERBENA_NO_EXCEPTIONS)
    add_library(verbena_${name}_no_exceptions OBJECT ${sources})
    target_link_libraries(verbena_${name}_no_exceptions PRIVATE
      verbena_flags verbena_interface_no_exceptions verbena_rdma_headers verbena_fmt)
    target_compile_options(verbena_${name}_no_exceptions PRIVATE -fno-exceptions)
    target_compile_definitions(verbena_${name}_no_exceptions PRIVATE "${soft_library}")
    set_target_properties(verbena_${name}_no_exceptions PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
endfunction()

# verbena_module_uses(NAME TARGET): gives the module access to the headers of a target.
function(verbena_module_uses name used)
  foreach(target verbena_${name} verbena_${name}_no_exceptions)
    if(TARGET ${target})
      target_link_libraries(${target} PRIVATE ${used})
    endif()
  endforeach()
endfunction()

# verbena_module_uses_hwloc(NAME): gives the module access to hwloc.h if hwloc was found.
function(verbena_module_uses_hwloc name)
  foreach(target verbena_${name} verbena_${name}_no_exceptions)
    if(VERBENA_HAS_HWLOC AND TARGET ${target})
      target_compile_definitions(${target} PRIVATE VERBENA_WITH_HWLOC=1)
      target_include_directories(${target} SYSTEM PRIVATE "${VERBENA_HWLOC_INCLUDE_DIR}")
    endif()
  endforeach()
endfunction()

function(verbena_library name)
  cmake_parse_arguments(arg "" "VARIANT" "MODULES" ${ARGN})
  set(objects "")
  set(headers "${PROJECT_SOURCE_DIR}/include/verbena/verbena.hpp" "${PROJECT_SOURCE_DIR}/include/verbena/fwd.hpp"
    "${PROJECT_SOURCE_DIR}/include/verbena/async.hpp" "${PROJECT_SOURCE_DIR}/include/verbena/net.hpp")
  foreach(module IN LISTS arg_MODULES)
    if(TARGET verbena_${module}${arg_VARIANT})
      list(APPEND objects $<TARGET_OBJECTS:verbena_${module}${arg_VARIANT}>)
    endif()
    file(GLOB_RECURSE module_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/verbena/${module}/*.hpp")
    list(APPEND headers ${module_headers})
  endforeach()
  add_library(${name} STATIC ${objects})
  add_library(verbena::${name} ALIAS ${name})
  target_sources(${name} PUBLIC FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include" FILES ${headers})
  target_link_libraries(${name}
    PUBLIC verbena_interface${arg_VARIANT}
           $<BUILD_INTERFACE:verbena_rdma_headers> $<INSTALL_INTERFACE:verbena::rdma_headers>
    PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  if(VERBENA_HAS_HWLOC)
    target_link_libraries(${name} PUBLIC
      $<BUILD_INTERFACE:$<LINK_ONLY:verbena_hwloc>> $<INSTALL_INTERFACE:$<LINK_ONLY:verbena::hwloc>>)
  endif()
  # Programs of this build find the software device of this build. Installed packages set the search path themselves, and
  # so do installed programs (VERBENA_OWN_RPATH), because CMake cannot remove a linker option at installation.
  set(stays "$<NOT:$<BOOL:$<TARGET_PROPERTY:VERBENA_OWN_RPATH>>>")
  target_link_options(${name} INTERFACE "$<BUILD_INTERFACE:$<${stays}:LINKER:-rpath,${PROJECT_BINARY_DIR}/lib>>")
  set_target_properties(${name} PROPERTIES
    LINKER_LANGUAGE CXX POSITION_INDEPENDENT_CODE ON)
  # Installed without being part of the library, which does not need Asio.
  file(GLOB_RECURSE asio_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/include/verbena/asio/*.hpp")
  list(APPEND headers "${PROJECT_SOURCE_DIR}/include/verbena/asio.hpp" ${asio_headers})
  list(JOIN headers "\n" lines)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/${name}_header_set.txt" CONTENT "${lines}\n")
endfunction()

# SPDX-License-Identifier: MIT
# Creates the target verbena::asio: verbena::verbena with the headers of Asio, which verbena/asio.hpp needs. The target exists
# only if standalone Asio 1.22 or newer is found. -DVERBENA_ASIO_INCLUDE_DIR=FOLDER names the folder of asio.hpp.
# This file is also installed.
include_guard(GLOBAL)

# verbena_add_asio(TARGET LIBRARY)
function(verbena_add_asio target library)
  find_path(VERBENA_ASIO_INCLUDE_DIR asio/version.hpp)
  mark_as_advanced(VERBENA_ASIO_INCLUDE_DIR)
  if(NOT VERBENA_ASIO_INCLUDE_DIR)
    return()
  endif()
  file(STRINGS "${VERBENA_ASIO_INCLUDE_DIR}/asio/version.hpp" line REGEX "define ASIO_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" version "${line}")
  if(NOT version OR version LESS 102200)
    message(STATUS "verbena::asio: Asio in ${VERBENA_ASIO_INCLUDE_DIR} is older than 1.22")
    return()
  endif()
  if(target MATCHES "::")
    add_library(${target} INTERFACE IMPORTED)
  else()
    add_library(${target} INTERFACE)
  endif()
  target_include_directories(${target} SYSTEM INTERFACE "${VERBENA_ASIO_INCLUDE_DIR}")
  target_link_libraries(${target} INTERFACE ${library} Threads::Threads)
  # Asio 1.22 detects coroutines of g++, but not those of clang with libstdc++.
  if(version LESS 102400)
    target_compile_definitions(${target} INTERFACE
      $<$<AND:$<CXX_COMPILER_ID:Clang>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,16>>:ASIO_HAS_CO_AWAIT=1;ASIO_HAS_STD_COROUTINE=1>)
  endif()
endfunction()

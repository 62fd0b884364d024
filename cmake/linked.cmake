# SPDX-License-Identifier: MIT
# Creates the target verbena::linked: verbena::verbena with a static libibverbs, selected drivers and, if installed, a
# static librdmacm inside the program, for machines without rdma-core. Link it instead of verbena::verbena. A source file
# that is compiled into the program passes the functions to the library through a weak symbol. The target exists only if
# the static libraries are found.
#
#   VERBENA_LINKED_DRIVERS   rdma-core's drivers to link (Debian's libibverbs-dev has all of them)
#
# This file is also installed.
include_guard(GLOBAL)

set(VERBENA_LINKED_DRIVERS mlx5 efa rxe siw CACHE STRING "Drivers inside programs that link verbena::linked")

# The static archive of a driver: libmlx5.a or librxe-rdmav34.a.
function(verbena_find_driver result driver folder)
  file(GLOB archives "${folder}/lib${driver}-rdmav*.a" "${folder}/lib${driver}.a")
  list(POP_FRONT archives archive)
  if(NOT archive)
    message(FATAL_ERROR "VERBENA_LINKED_DRIVERS names the driver ${driver}, but ${folder} has no static library of this driver")
  endif()
  set(${result} "${archive}" PARENT_SCOPE)
endfunction()

function(verbena_add_linked target library source)
  find_library(VERBENA_STATIC_IBVERBS libibverbs.a HINTS "${VERBENA_RDMA_CORE_ROOT}/lib")
  find_library(VERBENA_STATIC_RDMACM librdmacm.a HINTS "${VERBENA_RDMA_CORE_ROOT}/lib")
  find_library(VERBENA_NL NAMES libnl-3.a nl-3)
  find_library(VERBENA_NL_ROUTE NAMES libnl-route-3.a nl-route-3)
  mark_as_advanced(VERBENA_STATIC_IBVERBS VERBENA_STATIC_RDMACM VERBENA_NL VERBENA_NL_ROUTE)
  if(NOT VERBENA_STATIC_IBVERBS OR NOT VERBENA_NL OR NOT VERBENA_NL_ROUTE)
    return()
  endif()
  get_filename_component(folder "${VERBENA_STATIC_IBVERBS}" DIRECTORY)
  set(archives "")
  foreach(driver IN LISTS VERBENA_LINKED_DRIVERS)
    verbena_find_driver(archive "${driver}" "${folder}")
    list(APPEND archives "${archive}")
  endforeach()
  list(JOIN VERBENA_LINKED_DRIVERS "," drivers)
  set(with_efa 0)
  if(efa IN_LIST VERBENA_LINKED_DRIVERS)
    set(with_efa 1)
  endif()
  set(with_cm 0)
  if(VERBENA_STATIC_RDMACM)
    set(with_cm 1)
    list(PREPEND archives "${VERBENA_STATIC_RDMACM}")
  endif()
  get_target_property(rdma_core_version verbena_rdma_headers VERBENA_RDMA_CORE_VERSION)
  configure_file("${source}" "${CMAKE_CURRENT_BINARY_DIR}/verbena_linked.cpp" @ONLY)
  if(target MATCHES "::")
    add_library(${target} INTERFACE IMPORTED)
  else()
    add_library(${target} INTERFACE)
  endif()
  target_sources(${target} INTERFACE "${CMAKE_CURRENT_BINARY_DIR}/verbena_linked.cpp")
  target_link_libraries(${target} INTERFACE ${library} -Wl,--start-group ${archives} "${VERBENA_STATIC_IBVERBS}"
    -Wl,--end-group "${VERBENA_NL_ROUTE}" "${VERBENA_NL}" m Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

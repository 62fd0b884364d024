# SPDX-License-Identifier: MIT
# Finds the headers of rdma-core and creates the target verbena_rdma_headers. Nothing is linked: the library loads
# libibverbs at run time. Search order:
#   1. VERBENA_RDMA_CORE_ROOT     a prefix with include/infiniband/verbs.h (an OFED, a build of rdma-core)
#   2. pkg-config libibverbs      the distribution's package, or one in PKG_CONFIG_PATH
#   3. the compiler's search path
#   -DVERBENA_RDMA_CORE=bundled   replaces this search: fetches a release and uses the headers in it
# This file is also installed: find_package(verbena) searches the same places.
include_guard(GLOBAL)

set(VERBENA_RDMA_CORE_ROOT "" CACHE PATH "Prefix of an rdma-core to take the headers from (OFED, own build)")
set(VERBENA_RDMA_CORE "system" CACHE STRING "system, or bundled: fetch rdma-core's headers at configure time")
set_property(CACHE VERBENA_RDMA_CORE PROPERTY STRINGS system bundled)

function(verbena_find_rdma_core result)
  if(VERBENA_RDMA_CORE STREQUAL "bundled")
    include("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/rdma_core_bundled.cmake")
    verbena_fetch_rdma_core(directory)
  elseif(NOT VERBENA_RDMA_CORE STREQUAL "system")
    message(FATAL_ERROR "VERBENA_RDMA_CORE is '${VERBENA_RDMA_CORE}'; it must be system or bundled")
  elseif(VERBENA_RDMA_CORE_ROOT)
    set(directory "${VERBENA_RDMA_CORE_ROOT}/include")
    if(NOT EXISTS "${directory}/infiniband/verbs.h")
      message(FATAL_ERROR "VERBENA_RDMA_CORE_ROOT is set, but ${directory}/infiniband/verbs.h does not exist")
    endif()
  else()
    find_package(PkgConfig QUIET)
    if(PKG_CONFIG_FOUND)
      pkg_check_modules(VERBENA_PC_IBVERBS QUIET libibverbs)
      # pkg-config omits directories that the compiler searches by default; the variable always has a value.
      pkg_get_variable(pkg_include libibverbs includedir)
    endif()
    find_path(VERBENA_VERBS_INCLUDE_DIR infiniband/verbs.h HINTS ${VERBENA_PC_IBVERBS_INCLUDE_DIRS} ${pkg_include})
    mark_as_advanced(VERBENA_VERBS_INCLUDE_DIR)
    if(NOT VERBENA_VERBS_INCLUDE_DIR)
      message(FATAL_ERROR "infiniband/verbs.h was not found. Install libibverbs-dev and librdmacm-dev (Debian, Ubuntu), "
        "rdma-core-devel (Fedora) or rdma-core (Arch); or give a prefix with -DVERBENA_RDMA_CORE_ROOT=...; or fetch "
        "the headers with -DVERBENA_RDMA_CORE=bundled")
    endif()
    set(directory "${VERBENA_VERBS_INCLUDE_DIR}")
  endif()
  set(${result} "${directory}" PARENT_SCOPE)
endfunction()

# The oldest supported headers are those of rdma-core 44. Headers have no version number; ATOMIC WRITE was added in 44.
function(verbena_check_rdma_core directory)
  file(STRINGS "${directory}/infiniband/verbs.h" floor REGEX "IBV_QP_EX_WITH_ATOMIC_WRITE" LIMIT_COUNT 1)
  if(NOT floor)
    message(FATAL_ERROR "The headers of rdma-core in ${directory} are too old: 44.0 is needed")
  endif()
endfunction()

verbena_find_rdma_core(verbena_rdma_include)
verbena_check_rdma_core("${verbena_rdma_include}")
message(STATUS "rdma-core headers: ${verbena_rdma_include}")
add_library(verbena_rdma_headers INTERFACE IMPORTED GLOBAL)
add_library(verbena::rdma_headers ALIAS verbena_rdma_headers)
set_target_properties(verbena_rdma_headers PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES "${verbena_rdma_include}"
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${verbena_rdma_include}")

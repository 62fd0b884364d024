# SPDX-License-Identifier: MIT
# Finds the headers of rdma-core and creates the target verbena_rdma_headers. Nothing is linked: the library loads
# libibverbs at run time. The first of these places that has headers of rdma-core 28 or newer is used:
#   1. VERBENA_RDMA_CORE_ROOT     a prefix with include/infiniband/verbs.h; if it is set, the only place
#   2. pkg-config libibverbs      the distribution's package, or one in PKG_CONFIG_PATH
#   3. the prefix in /etc/infiniband/info, which OFED and MLNX_OFED write; it is usually /usr
#   4. the compiler's search path
#   5. other prefixes of OFED: /usr/mlnx-ofed*, /opt/mellanox, /opt/mellanox/*, /opt/ofed*, /usr/local/ofed*
#   -DVERBENA_RDMA_CORE=bundled   replaces this search: fetches a release and uses the headers in it
# CMAKE_FIND_ROOT_PATH and CMAKE_SYSROOT apply to 3, 4 and 5. This file is also installed: find_package(verbena) searches
# the same places.
include_guard(GLOBAL)

set(VERBENA_RDMA_CORE_ROOT "" CACHE PATH "Prefix of an rdma-core to take the headers from (OFED, own build)")
set(VERBENA_RDMA_CORE "system" CACHE STRING "system, or bundled: fetch rdma-core's headers at configure time")
set_property(CACHE VERBENA_RDMA_CORE PROPERTY STRINGS system bundled)

# Sets `result` to the version that the headers in `directory` have at least, 0 if they are older than 28. Headers have no
# version number; each of these names shows the version that introduced it.
function(verbena_rdma_core_version directory result)
  set(found 0)
  foreach(pair IN ITEMS 44=IBV_QP_EX_WITH_ATOMIC_WRITE 36=ibv_query_qp_data_in_order 35=ibv_is_fork_initialized
      34=ibv_reg_dmabuf_mr 32=ibv_query_gid_table 31=ibv_query_ece 30=ibv_get_device_index 28=ibv_reg_mr_iova2)
    string(REGEX MATCH "^[0-9]+" version "${pair}")
    string(REGEX REPLACE "^[0-9]+=" "" name "${pair}")
    # Lines of comments begin with a space.
    file(STRINGS "${directory}/infiniband/verbs.h" lines REGEX "^[^ ].*${name}" LIMIT_COUNT 1)
    if(lines)
      set(found ${version})
      break()
    endif()
  endforeach()
  set(${result} ${found} PARENT_SCOPE)
endfunction()

# Sets `result` to the fault of the headers in `directory`; empty if they can be used.
function(verbena_rdma_core_fault directory result)
  set(fault "")
  if(NOT EXISTS "${directory}/infiniband/verbs.h")
    set(fault "${directory}/infiniband/verbs.h does not exist")
  else()
    verbena_rdma_core_version("${directory}" version)
    if(EXISTS "${directory}/infiniband/verbs_exp.h")
      string(CONCAT fault "${directory} has the legacy verbs of MLNX_OFED (verbs_exp.h): reinstall MLNX_OFED 4.x with "
        "--upstream-libs, or install MLNX_OFED 5.0 or newer")
    elseif(version EQUAL 0)
      set(fault "the headers in ${directory} are too old: those of rdma-core 28 or newer are needed")
    elseif(NOT EXISTS "${directory}/rdma/rdma_cma.h")
      string(CONCAT fault "${directory} has no rdma/rdma_cma.h: install librdmacm-dev (Debian, Ubuntu) or rdma-core-devel "
        "(Fedora, OFED)")
    endif()
  endif()
  set(${result} "${fault}" PARENT_SCOPE)
endfunction()

# Sets `result` to pairs of a directory and the place that it was found in.
function(verbena_rdma_core_candidates result)
  set(pairs "")
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(VERBENA_PC_IBVERBS QUIET libibverbs)
    # pkg-config omits directories that the compiler searches by default; the variable always has a value.
    pkg_get_variable(pkg_include libibverbs includedir)
    foreach(directory IN LISTS VERBENA_PC_IBVERBS_INCLUDE_DIRS pkg_include)
      list(APPEND pairs "${directory}=pkg-config")
    endforeach()
  endif()
  foreach(root IN LISTS CMAKE_FIND_ROOT_PATH CMAKE_SYSROOT ITEMS "/")
    string(REGEX REPLACE "/+$" "" root "${root}")
    # A script that prints its settings: `echo prefix=/usr`.
    set(info "${root}/etc/infiniband/info")
    if(EXISTS "${info}")
      file(STRINGS "${info}" prefix REGEX "prefix=/" LIMIT_COUNT 1)
      if(prefix MATCHES "prefix=([^ \"']+)")
        list(APPEND pairs "${root}${CMAKE_MATCH_1}/include=OFED, ${info}")
      endif()
    endif()
  endforeach()
  find_path(VERBENA_VERBS_INCLUDE_DIR infiniband/verbs.h)
  mark_as_advanced(VERBENA_VERBS_INCLUDE_DIR)
  if(VERBENA_VERBS_INCLUDE_DIR)
    list(APPEND pairs "${VERBENA_VERBS_INCLUDE_DIR}=search path")
  endif()
  foreach(root IN LISTS CMAKE_FIND_ROOT_PATH CMAKE_SYSROOT ITEMS "/")
    string(REGEX REPLACE "/+$" "" root "${root}")
    file(GLOB prefixes LIST_DIRECTORIES true "${root}/usr/mlnx-ofed*" "${root}/opt/mellanox" "${root}/opt/mellanox/*"
      "${root}/opt/ofed*" "${root}/usr/local/ofed*")
    foreach(prefix IN LISTS prefixes)
      list(APPEND pairs "${prefix}/include=OFED, ${prefix}")
    endforeach()
  endforeach()
  set(${result} "${pairs}" PARENT_SCOPE)
endfunction()

# Sets `result` to the directory of the headers and `place` to where it was found.
function(verbena_find_rdma_core result place)
  if(VERBENA_RDMA_CORE STREQUAL "bundled")
    include("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/rdma_core_bundled.cmake")
    verbena_fetch_rdma_core(directory)
    set(pairs "${directory}=bundled")
  elseif(NOT VERBENA_RDMA_CORE STREQUAL "system")
    message(FATAL_ERROR "VERBENA_RDMA_CORE is '${VERBENA_RDMA_CORE}'; it must be system or bundled")
  elseif(VERBENA_RDMA_CORE_ROOT)
    set(pairs "${VERBENA_RDMA_CORE_ROOT}/include=VERBENA_RDMA_CORE_ROOT")
  else()
    verbena_rdma_core_candidates(pairs)
  endif()
  set(faults "")
  foreach(pair IN LISTS pairs)
    string(REGEX REPLACE "=.*" "" directory "${pair}")
    string(REGEX REPLACE "^[^=]*=" "" from "${pair}")
    verbena_rdma_core_fault("${directory}" fault)
    if(NOT fault)
      # pkg-config and the search path also lead to an OFED that is installed in /usr.
      foreach(other IN LISTS pairs)
        if(NOT from MATCHES "OFED" AND other MATCHES "^([^=]*)=(OFED.*)" AND CMAKE_MATCH_1 STREQUAL directory)
          string(APPEND from "; ${CMAKE_MATCH_2}")
        endif()
      endforeach()
      set(${result} "${directory}" PARENT_SCOPE)
      set(${place} "${from}" PARENT_SCOPE)
      return()
    endif()
    if(EXISTS "${directory}/infiniband" OR VERBENA_RDMA_CORE_ROOT)
      list(APPEND faults "  ${from}: ${fault}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES faults)
  list(JOIN faults "\n" faults)
  message(FATAL_ERROR "No headers of rdma-core 28 or newer were found.\n${faults}\n"
    "Install libibverbs-dev and librdmacm-dev (Debian, Ubuntu), rdma-core-devel (Fedora, OFED) or rdma-core (Arch); or "
    "give a prefix with -DVERBENA_RDMA_CORE_ROOT=...; or fetch the headers with -DVERBENA_RDMA_CORE=bundled")
endfunction()

verbena_find_rdma_core(verbena_rdma_include verbena_rdma_place)
verbena_rdma_core_version("${verbena_rdma_include}" verbena_rdma_version)
message(STATUS "rdma-core headers: ${verbena_rdma_include} (${verbena_rdma_place}; rdma-core ${verbena_rdma_version} or newer)")
add_library(verbena_rdma_headers INTERFACE IMPORTED GLOBAL)
add_library(verbena::rdma_headers ALIAS verbena_rdma_headers)
set_target_properties(verbena_rdma_headers PROPERTIES
  VERBENA_RDMA_CORE_VERSION ${verbena_rdma_version}
  INTERFACE_INCLUDE_DIRECTORIES "${verbena_rdma_include}"
  INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${verbena_rdma_include}")

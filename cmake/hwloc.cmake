# SPDX-License-Identifier: MIT
# Finds hwloc, which the library uses for NUMA placement, and creates the target verbena_hwloc. hwloc is optional: a library
# without hwloc returns an error for NUMA placement. No installed header includes hwloc, but programs that link the static
# library and use NUMA placement link hwloc too.
# This file is also installed: find_package(verbena) searches the same places.
include_guard(GLOBAL)

# verbena_find_hwloc(RESULT): sets RESULT to whether hwloc was found, and creates verbena_hwloc.
function(verbena_find_hwloc result)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(VERBENA_PC_HWLOC QUIET hwloc)
  endif()
  find_path(VERBENA_HWLOC_INCLUDE_DIR hwloc.h HINTS ${VERBENA_PC_HWLOC_INCLUDE_DIRS})
  find_library(VERBENA_HWLOC_LIBRARY hwloc HINTS ${VERBENA_PC_HWLOC_LIBRARY_DIRS})
  mark_as_advanced(VERBENA_HWLOC_INCLUDE_DIR VERBENA_HWLOC_LIBRARY)
  if(NOT VERBENA_HWLOC_INCLUDE_DIR OR NOT VERBENA_HWLOC_LIBRARY)
    set(${result} FALSE PARENT_SCOPE)
    return()
  endif()
  add_library(verbena_hwloc INTERFACE IMPORTED GLOBAL)
  add_library(verbena::hwloc ALIAS verbena_hwloc)
  # Programs without NUMA placement do not need the shared library at run time.
  set_target_properties(verbena_hwloc PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${VERBENA_HWLOC_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${VERBENA_HWLOC_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "-Wl,--push-state,--as-needed;${VERBENA_HWLOC_LIBRARY};-Wl,--pop-state")
  set(${result} TRUE PARENT_SCOPE)
endfunction()

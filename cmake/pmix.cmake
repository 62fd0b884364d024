# SPDX-License-Identifier: MIT
# Finds the header of PMIx, by which processes of mpirun and prte find each other, and sets VERBENA_HAS_PMIX. Only the header: the
# library is loaded at run time, by processes of such a launcher. PMIx is optional: without it, `from_environment()` needs
# MASTER_ADDR or VERBENA_STORE.
include_guard(GLOBAL)

set(VERBENA_HAS_PMIX FALSE)
if(VERBENA_PMIX)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(VERBENA_PC_PMIX QUIET pmix)
  endif()
  find_path(VERBENA_PMIX_INCLUDE_DIR pmix.h HINTS ${VERBENA_PC_PMIX_INCLUDE_DIRS})
  mark_as_advanced(VERBENA_PMIX_INCLUDE_DIR)
  if(VERBENA_PMIX_INCLUDE_DIR)
    set(VERBENA_HAS_PMIX TRUE)
    add_library(verbena_pmix INTERFACE)
    target_compile_definitions(verbena_pmix INTERFACE VERBENA_WITH_PMIX=1)
    target_include_directories(verbena_pmix SYSTEM INTERFACE "${VERBENA_PMIX_INCLUDE_DIR}")
  elseif(NOT VERBENA_PMIX STREQUAL "AUTO")
    message(FATAL_ERROR "pmix.h was not found. Install libpmix-dev (Debian, Ubuntu), pmix-devel (Fedora) or openpmix (Arch), "
      "or build without PMIx with -DVERBENA_PMIX=OFF")
  endif()
endif()

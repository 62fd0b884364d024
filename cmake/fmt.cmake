# SPDX-License-Identifier: MIT
# Finds the headers of {fmt}, which the library and the tools use to format text, and creates the target verbena_fmt. The
# library uses {fmt} header-only: programs need neither its headers nor its library. No installed header includes {fmt}.
include_guard(GLOBAL)

find_path(VERBENA_FMT_INCLUDE_DIR fmt/format.h)
mark_as_advanced(VERBENA_FMT_INCLUDE_DIR)
if(NOT VERBENA_FMT_INCLUDE_DIR)
  message(FATAL_ERROR "The headers of {fmt} were not found. Install libfmt-dev (Debian, Ubuntu), fmt-devel (Fedora) or fmt "
    "(Arch), or set VERBENA_FMT_INCLUDE_DIR to the folder that contains fmt/format.h")
endif()
add_library(verbena_fmt INTERFACE)
target_include_directories(verbena_fmt SYSTEM INTERFACE "${VERBENA_FMT_INCLUDE_DIR}")
target_compile_definitions(verbena_fmt INTERFACE FMT_HEADER_ONLY=1)

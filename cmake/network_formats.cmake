# SPDX-License-Identifier: MIT
# Finds the headers of nlohmann-json and toml++, with which the module `net` reads lists of hosts, and creates the target
# verbena_network_formats. Both are header-only, and no installed header includes them.
include_guard(GLOBAL)

find_path(VERBENA_JSON_INCLUDE_DIR nlohmann/json.hpp)
find_path(VERBENA_TOML_INCLUDE_DIR toml++/toml.h)
mark_as_advanced(VERBENA_JSON_INCLUDE_DIR VERBENA_TOML_INCLUDE_DIR)
if(NOT VERBENA_JSON_INCLUDE_DIR OR NOT VERBENA_TOML_INCLUDE_DIR)
  message(FATAL_ERROR "The headers of nlohmann-json or of toml++ were not found. Install nlohmann-json3-dev and "
    "libtomlplusplus-dev (Debian, Ubuntu), json-devel and tomlplusplus-devel (Fedora) or nlohmann-json and tomlplusplus "
    "(Arch), or set VERBENA_JSON_INCLUDE_DIR and VERBENA_TOML_INCLUDE_DIR to the folders that contain nlohmann/json.hpp and "
    "toml++/toml.h")
endif()
add_library(verbena_network_formats INTERFACE)
target_include_directories(verbena_network_formats SYSTEM INTERFACE
  "${VERBENA_JSON_INCLUDE_DIR}" "${VERBENA_TOML_INCLUDE_DIR}")
target_compile_definitions(verbena_network_formats INTERFACE
  TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0 TOML_ENABLE_FORMATTERS=0)
# Assertions of toml++ 3.3 fail for some invalid texts, for example " x[", before the check that reports the error. With
# NDEBUG they become assumptions of the compiler.
set_source_files_properties("${PROJECT_SOURCE_DIR}/src/net/network_toml.cpp" PROPERTIES
  COMPILE_OPTIONS "-UNDEBUG;-DTOML_ASSERT(expr)=static_assert(true)")

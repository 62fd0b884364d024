# SPDX-License-Identifier: MIT
# Finds the headers of libcurl, through which the module `net` uses etcd, and sets VERBENA_HAS_CURL. Only the headers: the
# library is loaded at run time, by processes with VERBENA_ETCD. libcurl is optional: without it, VERBENA_ETCD is an error.
include_guard(GLOBAL)

set(VERBENA_HAS_CURL FALSE)
if(VERBENA_ETCD)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(VERBENA_PC_CURL QUIET libcurl)
  endif()
  find_path(VERBENA_CURL_INCLUDE_DIR curl/curl.h HINTS ${VERBENA_PC_CURL_INCLUDE_DIRS})
  mark_as_advanced(VERBENA_CURL_INCLUDE_DIR)
  if(VERBENA_CURL_INCLUDE_DIR)
    set(VERBENA_HAS_CURL TRUE)
    add_library(verbena_curl INTERFACE)
    target_compile_definitions(verbena_curl INTERFACE VERBENA_WITH_CURL=1)
    target_include_directories(verbena_curl SYSTEM INTERFACE "${VERBENA_CURL_INCLUDE_DIR}")
  elseif(NOT VERBENA_ETCD STREQUAL "AUTO")
    message(FATAL_ERROR "curl/curl.h was not found. Install libcurl4-openssl-dev (Debian, Ubuntu), libcurl-devel (Fedora) or curl "
      "(Arch), or build without etcd with -DVERBENA_ETCD=OFF")
  endif()
endif()
